# Runs one program with its tests, and answers for it. The job is the first line of standard input; what the tests came
# to is said on standard output in two steps, so that a program which ends early, or writes there, has not passed.


def main():
    import builtins, json, os, sys, types

    # what the program may replace is taken before it runs
    read, write, leave, execute, build = os.read, os.write, os._exit, exec, compile
    source, answer = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in 0, 1, 2:
        os.dup2(null, standard)
    os.close(null)

    def line():
        got = b""
        while not got.endswith(b"\n"):
            more = read(source, 1 << 16)
            if not more:
                leave(1)
            got += more
        return got

    job = json.loads(line())
    try:
        import resource
        for name, most in job["limits"].items():
            try:
                resource.setrlimit(getattr(resource, name), (most, most))
            except (AttributeError, ValueError, OSError):
                pass  # this system has no such limit
    except ImportError:
        pass  # nor does Windows
    sys.path[:] = [path for path in sys.path if path]
    module = types.ModuleType("answer")
    sys.modules["answer"] = module
    given = dict(vars(builtins))
    try:
        for i, text in enumerate(job["program"]):
            execute(build(text, "program%d.py" % i, "exec", 0, True), vars(module))
        world = dict(vars(module), __builtins__=given)
        execute(build(job["tests"], "tests.py", "exec", 0, True), world)
        write(answer, job["key"].encode())
        write(answer, line())
    except BaseException:
        leave(1)
    leave(0)


main()
