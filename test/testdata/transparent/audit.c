/* A library for LD_AUDIT: it loads into a namespace of its own. */
unsigned la_version(unsigned version) { return version; }
