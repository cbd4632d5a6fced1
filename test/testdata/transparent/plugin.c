int plugin_answer(int n) { return 2 * n; }
