#include "sites/slowpath.S"
