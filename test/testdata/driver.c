/* Runs the main function of a library, which has another name there. */
int ENTRY(int argc, char **argv);

int main(int argc, char **argv) { return ENTRY(argc, argv); }
