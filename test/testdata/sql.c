/* A fixed workload for SQLite, which is linked statically so that its
 * functions are the program's. */
#include <sqlite3.h>
#include <stdio.h>

static int row(void *arg, int n, char **values, char **names)
{
	(void)arg;
	(void)names;
	for (int i = 0; i < n; i++)
		printf("%s%s", i ? "|" : "", values[i] ? values[i] : "NULL");
	putchar('\n');
	return 0;
}

static int by_length(void *arg, int n, const void *a, int m, const void *b)
{
	(void)arg;
	(void)a;
	(void)b;
	return n - m;
}

static void twice(sqlite3_context *context, int n, sqlite3_value **values)
{
	(void)n;
	sqlite3_result_int(context, 2 * sqlite3_value_int(values[0]));
}

static const char script[] =
	"CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL);"
	"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 700)"
	" INSERT INTO t SELECT i, 'name' || (i * 7919 % 1000), i * 0.5 FROM n;"
	"CREATE INDEX tb ON t(b);"
	"BEGIN; UPDATE t SET c = c + 1 WHERE a % 3 = 0; DELETE FROM t WHERE a % 17 = 0; COMMIT;"
	"SELECT count(*), sum(c), min(b), max(b), twice(21) FROM t;"
	"SELECT b, count(*) FROM t WHERE b LIKE 'name1%' GROUP BY substr(b, 1, 6) ORDER BY 2 DESC, 1 LIMIT 5;"
	"SELECT x.a, y.b FROM t x JOIN t y ON x.b = y.b WHERE x.a < 6 ORDER BY x.b COLLATE length;"
	"SELECT a, sum(c) OVER (ORDER BY a ROWS 2 PRECEDING) FROM t WHERE a BETWEEN 10 AND 14;"
	"SELECT printf('%5.2f|%s|%d', 3.14159, upper('abc'), 42), json_extract('{\"a\":[1,2,3]}', '$.a[1]');"
	"CREATE VIEW v AS SELECT b FROM t; CREATE TRIGGER tr AFTER INSERT ON t BEGIN UPDATE t SET c = 0 WHERE a = new.a; END;"
	"INSERT INTO t VALUES (9999, 'last', 7); SELECT * FROM t WHERE a = 9999; PRAGMA integrity_check;"
	"ROLLBACK; SELECT nothing FROM nowhere;";

int main(void)
{
	sqlite3 *db;
	char *message = 0;
	if (sqlite3_open(":memory:", &db) != SQLITE_OK)
		return 1;
	sqlite3_create_collation(db, "length", SQLITE_UTF8, 0, by_length);
	sqlite3_create_function(db, "twice", 1, SQLITE_UTF8, 0, twice, 0, 0);
	for (const char *sql = script; *sql;) {
		sqlite3_stmt *one;
		const char *rest;
		if (sqlite3_prepare_v2(db, sql, -1, &one, &rest) != SQLITE_OK) {
			printf("error: %s\n", sqlite3_errmsg(db));
			break;
		}
		sqlite3_finalize(one);
		char *text = sqlite3_mprintf("%.*s", (int)(rest - sql), sql);
		if (sqlite3_exec(db, text, row, 0, &message) != SQLITE_OK)
			printf("error: %s\n", message);
		sqlite3_free(message);
		sqlite3_free(text);
		message = 0;
		sql = rest;
	}
	printf("closed %d\n", sqlite3_close(db));
	return 0;
}
