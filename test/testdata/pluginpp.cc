// A translator in C++: dynprof.h as it is, warnings are errors.
#include <dynprof.h>

#include <iostream>
#include <string>

namespace {

class Translator {
public:
	explicit Translator(const dynprof_api &api) : dynprof(api) {}

	int begin() { return dynprof.register_translator(hot, 100, DYNPROF_SYNCHRONOUS, this); }

private:
	static void hot(const dynprof_event *event, void *user)
	{
		auto *self = static_cast<Translator *>(user);
		if (std::string(event->name) == "leaf_5")
			std::cerr << event->name << ": " << self->dynprof.redirect(event->function, event->original, 1) << std::endl;
	}

	const dynprof_api &dynprof;
};

} // namespace

extern "C" int dynprof_plugin_init(const dynprof_api *api)
{
	static Translator translator(*api);
	return translator.begin();
}
