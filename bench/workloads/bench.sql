-- What programs do with SQLite, in memory: inserts, indices, joins, aggregates,
-- text, updates, deletes. SIZE is replaced by a number.
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price REAL, kind INTEGER);
CREATE TABLE sale(id INTEGER PRIMARY KEY, item INTEGER, day INTEGER, n INTEGER);
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 50 * SIZE)
INSERT INTO item SELECT i, printf('item %05d', i * 7919 % 100003), i * 13 % 997 / 10.0, i % 17 FROM c WHERE i <= 50 * SIZE;
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 500 * SIZE)
INSERT INTO sale SELECT i, i * 31 % (50 * SIZE + 1), i % 365, i % 9 + 1 FROM c WHERE i <= 500 * SIZE;
CREATE INDEX item_name ON item(name);
CREATE INDEX sale_item ON sale(item, day);
SELECT kind, count(*), round(sum(price * n), 2) FROM sale JOIN item ON item.id = sale.item GROUP BY kind ORDER BY 3 DESC;
SELECT count(*) FROM item WHERE name LIKE '%77%' OR name GLOB '*1[2-4]*';
SELECT day, sum(n) OVER (ORDER BY day ROWS 7 PRECEDING) FROM (SELECT day, sum(n) AS n FROM sale GROUP BY day) ORDER BY day DESC LIMIT 5;
UPDATE item SET price = price * 1.1, name = upper(name) WHERE kind IN (3, 5, 7);
SELECT count(*), max(length(name)), min(name) FROM item WHERE name BETWEEN 'ITEM 1' AND 'item 9';
SELECT count(*) FROM item AS a WHERE EXISTS (SELECT 1 FROM sale WHERE item = a.id AND day = a.kind);
DELETE FROM sale WHERE day % 3 = 0;
SELECT count(*), total(n) FROM sale;
