"""A JVM with Kafka's own classes of a version: what this project's copies of Kafka's algorithms are held against."""

from __future__ import annotations

import json
import re
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kafka_rebalance.local_cluster.errors import LocalClusterError
from kafka_rebalance.local_cluster.jars.class_path import quiet, tools_jars
from kafka_rebalance.local_cluster.jvms.class_archive import find_runtime
from kafka_rebalance.local_cluster.jvms.gateway import MAIN, open_gateway
from kafka_rebalance.local_cluster.machine.processes import Guard, last_lines, start_process


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


_ENTRY = re.compile(r"(?P<key>.+?) -> \w+\((?P<values>[^()]*)\)")


class JavaError(Exception):
    """What Kafka threw: `java_class` is the exception's class, `message` its text (None where it has none)."""

    def __init__(self, java_class: str, message: str | None) -> None:
        super().__init__(f"{java_class}: {message}")
        self.java_class = java_class
        self.message = message


class KafkaClasses:
    """`with KafkaClasses("2.0.1") as classes:`: `classes.jvm` is py4j's view of a JVM with that version's jars.

    The JVM ends with this process, however it ends. A call takes about 0.1 ms: for thousands of comparisons hand over
    text, bytes and whole JSON (`java`), and take results as text (`replica_lists`).
    """

    def __init__(self, version: str) -> None:
        self.version = version

    def __enter__(self) -> Self:
        runtime = find_runtime(self.version, quiet)
        runtime = replace(runtime, class_path=(*runtime.class_path, *tools_jars(self.version)))
        self.folder = Path(tempfile.mkdtemp(prefix="kafka-classes-"))
        self._guard = Guard([self.folder])
        try:
            output = self.folder / "jvm.out"
            command = runtime.command("512m", self.folder, self.folder / "kafka.log", MAIN)
            self._process = start_process(command, output, self._guard, hold_stdin=True)

            def check_alive() -> None:
                if not self._process.is_alive():
                    raise LocalClusterError(f"The JVM ended by itself. {last_lines(output)}")

            self.gateway = open_gateway(output, check_alive)
            self.jvm = self.gateway.jvm
            utils = "org.apache.kafka.common.utils" + (".internals" if self.version.startswith("4.") else "")
            self._tools = JavaTools(self.gateway, utils)
            self._methods: dict[tuple[str, str, int], list[Any]] = {}
            self._fields: dict[tuple[str, str], Any] = {}
            self._mapper = self.jvm.com.fasterxml.jackson.databind.ObjectMapper()
            self._converters = self.jvm.scala.collection.JavaConverters
        except BaseException:
            self._guard.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.gateway.close()
        self._process.end(signal.SIGKILL)
        self._guard.close()

    # Calling

    def companion(self, name: str) -> Any:
        """The Scala object of that full name, such as `kafka.admin.AdminUtils`."""
        return getattr(self.class_of(name + "$"), "MODULE$")

    def class_of(self, name: str) -> Any:
        """The class of that full name: call it to construct, take its static members as attributes."""
        found = self.jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def call(self, target: Any, method: str, *arguments: Any) -> Any:
        """A method, private ones too, by name and number of arguments. Raises JavaError.

        `target` is a Java object, or the full name of a class for its static methods.
        """
        from py4j.protocol import Py4JJavaError

        static = isinstance(target, str)
        java_class = self.jvm.java.lang.Class.forName(target) if static else target.getClass()

        array = self.gateway.new_array(self.jvm.java.lang.Object, len(arguments))
        for index, argument in enumerate(arguments):
            array[index] = argument
        for candidate in self._find_methods(java_class, method, len(arguments)):
            try:
                return candidate.invoke(None if static else target, array)
            except Py4JJavaError as error:
                thrown = error.java_exception
                if thrown.getClass().getName() == "java.lang.IllegalArgumentException":
                    continue  # another method of this name takes these arguments
                cause = thrown.getCause() or thrown
                raise JavaError(cause.getClass().getName(), cause.getMessage()) from None
        raise TypeError(f"{java_class.getName()} of {self.version} has no {method} for {arguments}")

    def _find_methods(self, java_class: Any, method: str, count: int) -> list[Any]:
        key = (java_class.getName(), method, count)
        if key not in self._methods:
            found = []
            while java_class is not None:
                for candidate in java_class.getDeclaredMethods():
                    if candidate.getName() == method and candidate.getParameterCount() == count:
                        candidate.setAccessible(True)
                        found.append(candidate)
                java_class = java_class.getSuperclass()
            self._methods[key] = found
        return self._methods[key]

    def set_field(self, target: Any, name: str, value: Any) -> None:
        self._field(target, name).set(target, value)

    def _field(self, target: Any, name: str) -> Any:
        java_class = target.getClass()
        key = (java_class.getName(), name)
        if key not in self._fields:
            self._fields[key] = java_class.getDeclaredField(name)
            self._fields[key].setAccessible(True)
        return self._fields[key]

    # Values

    def java(self, value: Any) -> Any:
        """Lists and dicts (of strings) of Python as `java.util` ones, in one call, however many values they hold."""
        return self._mapper.readValue(json.dumps(value), self.jvm.java.lang.Class.forName("java.lang.Object"))

    def python(self, value: Any) -> Any:
        """`java.util` lists and maps (of what JSON can hold) as Python's, in one call."""
        return json.loads(self._mapper.writeValueAsString(value))

    def seq(self, values: Sequence[Any]) -> Any:
        """A Scala `List`, which is a `Seq` of Scala 2.12 (collection) as well as of 2.13 (immutable)."""
        plain = all(value is None or isinstance(value, bool | int | float | str) for value in values)
        listed = self.java(list(values)) if plain else self._java_list(values)
        return self._converters.asScalaBuffer(listed).toList()

    def map(self, mapping: Mapping[Any, Any]) -> Any:
        """An immutable Scala `Map`; values that are lists or tuples become Scala lists."""
        java_map = self.jvm.java.util.LinkedHashMap()
        for key, value in mapping.items():
            java_map.put(key, self.seq(value) if isinstance(value, list | tuple) else value)
        predef = self.companion("scala.Predef")
        return self._converters.mapAsScalaMap(java_map).toMap(getattr(predef, "$conforms")())

    def set(self, values: Sequence[Any]) -> Any:
        """An immutable Scala `Set`."""
        return self.seq(values).toSet()

    def option(self, value: Any) -> Any:
        """`None` becomes Scala's None, anything else Some."""
        return self.jvm.scala.Option.apply(value)

    def values_of(self, collection: Any) -> list[Any]:
        """A Scala collection's values."""
        return list(self.jvm.java.util.ArrayList(self._converters.asJavaCollection(collection)))

    def replica_lists(self, scala_map: Any) -> dict[str, tuple[int, ...]]:
        """A Scala map to sequences of Int by the text of its keys (`0`, `topic-0`), in the order of its iteration."""
        found = {}
        for line in scala_map.mkString("\n").splitlines():
            entry = _ENTRY.fullmatch(line)
            assert entry is not None, f"{line!r} is not a list of replicas"
            found[entry["key"]] = tuple(int(part) for part in entry["values"].split(",") if part.strip())
        return found

    def topic_partition(self, topic: str, partition: int) -> Any:
        return self.jvm.org.apache.kafka.common.TopicPartition(topic, partition)

    def _java_list(self, values: Sequence[Any]) -> Any:
        listed = self.jvm.java.util.ArrayList()
        for value in values:
            listed.add(value)
        return listed

    # Tools

    def run_tool(self, main_class: str, arguments: Sequence[str]) -> tuple[int, str, str]:
        """(exit code, standard output, standard error) of a tool, by the full name of its class."""
        return self._tools.run(self.class_of(main_class).main, arguments)
