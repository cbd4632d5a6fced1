PRAGMA synchronous = off;
CREATE TABLE part(id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL, kind INT CHECK (kind >= 0));
CREATE TABLE sale(id INTEGER PRIMARY KEY, part INT REFERENCES part(id), day TEXT, amount INT);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
INSERT INTO part SELECT i, printf('part-%05d-%s', i, hex(i * 7919 % 65536)), (i * 37 % 1000) / 8.0, i % 13 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 8000)
INSERT INTO sale SELECT i, i * 31 % 2000 + 1, date('2020-01-01', '+' || (i % 365) || ' days'), i % 17 + 1 FROM n;
COMMIT;
CREATE INDEX sale_part ON sale(part, day);
CREATE UNIQUE INDEX part_name ON part(lower(name)) WHERE kind <> 5;
ANALYZE;
EXPLAIN QUERY PLAN SELECT * FROM sale WHERE part = 5 AND day > '2020-06-01';
SELECT kind, count(*), sum(amount), round(avg(price), 3) FROM sale JOIN part ON part.id = sale.part GROUP BY kind HAVING count(*) > 10 ORDER BY 3 DESC, 1;
SELECT name FROM part p WHERE NOT EXISTS (SELECT 1 FROM sale s WHERE s.part = p.id) ORDER BY id LIMIT 5;
SELECT p.name, coalesce(s.amount, -1) FROM part p LEFT JOIN sale s ON s.part = p.id AND s.amount > 16 WHERE p.id < 10 ORDER BY 1, 2;
SELECT day, total, rank() OVER (ORDER BY total DESC) AS r, sum(total) OVER (ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW),
       lag(total, 1, 0) OVER (ORDER BY day), ntile(4) OVER (ORDER BY total)
  FROM (SELECT day, sum(amount) AS total FROM sale GROUP BY day) ORDER BY day LIMIT 40;
SELECT json_group_array(json_object('id', id, 'name', name)) FROM (SELECT id, name FROM part WHERE id % 400 = 0);
SELECT key, value, type FROM json_each('{"a":[1,2.5,null],"b":{"c":"\u00e4"}}');
SELECT json_extract('{"a":{"b":[1,2,3]}}', '$.a.b[2]'), json_set('[1,2]', '$[1]', 'x');
UPDATE part SET price = price * 1.1 WHERE kind IN (SELECT kind FROM part GROUP BY kind ORDER BY min(id) LIMIT 3);
DELETE FROM sale WHERE id % 11 = 0;
CREATE TRIGGER note AFTER DELETE ON part BEGIN UPDATE sale SET part = NULL WHERE part = old.id; END;
DELETE FROM part WHERE id BETWEEN 100 AND 120;
SELECT count(*), count(part), total(amount) FROM sale;
CREATE VIEW dear AS SELECT * FROM part WHERE price > 100;
SELECT count(*), group_concat(name, ';') FROM (SELECT * FROM dear ORDER BY price DESC, id LIMIT 5);
SELECT name FROM part WHERE name LIKE '%-0001%' OR name GLOB '*-FF*' ORDER BY name;
SELECT part FROM sale WHERE part < 9 INTERSECT SELECT id FROM part WHERE kind < 5 EXCEPT SELECT 3;
CREATE VIRTUAL TABLE doc USING fts5(body);
INSERT INTO doc SELECT name || ' of kind ' || kind FROM part WHERE id <= 300;
SELECT rowid, snippet(doc, 0, '<', '>', '~', 4) FROM doc WHERE doc MATCH 'kind AND 7' ORDER BY rowid LIMIT 6;
INSERT INTO part VALUES (1, 'again', 1, 1);
SELECT no_such_column FROM part;
PRAGMA integrity_check;
VACUUM;
SELECT count(*), sum(length(name)) FROM part;
