"""Command-line tools written in Java, run by their `main` in a JVM that is up already: their own would take seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class JavaTools:
    """Kafka's tools in the JVM behind a py4j gateway, whose standard output and error are read here from then on.

    Kafka's tools end by `Exit.exit`, which has a hook for tests such as these; without one it would end the JVM.
    """

    def __init__(self, gateway: Any, utils: str = "org.apache.kafka.common.utils") -> None:
        """`utils`: the package in which the version has its class Exit."""
        self._gateway = gateway
        jvm = gateway.jvm
        self._code = jvm.java.util.concurrent.atomic.AtomicReference()
        # Before anything of Scala says something: its Console keeps the streams that it finds first.
        self._said, self._complained = (jvm.java.io.ByteArrayOutputStream() for _ in range(2))
        jvm.java.lang.System.setOut(jvm.java.io.PrintStream(self._said, True, "UTF-8"))
        jvm.java.lang.System.setErr(jvm.java.io.PrintStream(self._complained, True, "UTF-8"))
        procedure = jvm.java.lang.Class.forName(f"{utils}.Exit$Procedure")
        proxies = jvm.java.lang.invoke.MethodHandleProxies
        leaving: Any = jvm
        for part in f"{utils}.Exit".split("."):
            leaving = getattr(leaving, part)
        leaving.setExitProcedure(proxies.asInterfaceInstance(procedure, self._ending()))

    def run(self, main: Any, arguments: Sequence[str]) -> tuple[int, str, str]:
        """(exit code, standard output, standard error) of a class's `main`."""
        from py4j.protocol import Py4JJavaError

        given = self._gateway.new_array(self._gateway.jvm.java.lang.String, len(arguments))
        for index, argument in enumerate(arguments):
            given[index] = argument
        for stream in (self._said, self._complained):
            stream.reset()
        self._code.set(None)
        try:
            main(given)
        except Py4JJavaError:
            if self._code.get() is None:
                raise
        return self._code.get() or 0, self._said.toString("UTF-8"), self._complained.toString("UTF-8")

    def _ending(self) -> Any:
        """`(int code, String message) -> void`: keeps the first code and throws, so that `main` is left.

        Made of method handles: an object of Python's would need a way back from Java into this process.
        """
        jvm = self._gateway.jvm
        handles, kind = jvm.java.lang.invoke.MethodHandles, jvm.java.lang.invoke.MethodType.methodType
        void, boolean, integer = (getattr(jvm.java.lang, name).TYPE for name in ("Void", "Boolean", "Integer"))
        any_object, text = (jvm.java.lang.Class.forName(f"java.lang.{name}") for name in ("Object", "String"))
        swap = handles.publicLookup().findVirtual(
            self._code.getClass(), "compareAndSet", kind(boolean, any_object, self._array([any_object]))
        )
        keep = handles.insertArguments(swap.bindTo(self._code), 0, self._array([None], "Object"))
        ended = jvm.java.lang.RuntimeException("the tool has ended")
        thrown = handles.throwException(void, ended.getClass()).bindTo(ended)
        return handles.foldArguments(
            handles.dropArguments(thrown, 0, self._array([integer, text])), keep.asType(kind(void, integer))
        )

    def _array(self, values: Sequence[Any], of: str = "Class") -> Any:
        array = self._gateway.new_array(getattr(self._gateway.jvm.java.lang, of), len(values))
        for index, value in enumerate(values):
            array[index] = value
        return array
