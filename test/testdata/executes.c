/* Executes the program that is named, in a child, and ends with its status; or ends with 5. */
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int status = 0;
	pid_t p;
	if (argc < 2)
		return 5;
	if ((p = vfork()) == 0) {
		execv(argv[1], argv + 1);
		_exit(127);
	}
	waitpid(p, &status, 0);
	return WEXITSTATUS(status);
}
