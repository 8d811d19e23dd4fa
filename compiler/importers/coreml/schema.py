"""Makes Core ML's protobuf messages from `coreml.proto` by the runtime alone: no compiler, no generated code."""

import functools
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from tosaic.errors import UnsupportedError
from tosaic.install import install_command

_SCALARS = {
    name: number
    for number, name in enumerate(
        "double float int64 uint64 int32 fixed64 fixed32 bool string group message bytes uint32".split(), 1
    )
}
_PACKAGE = "CoreML.Specification"


@functools.cache
def messages() -> dict[str, Any]:
    """The message classes by name; UnsupportedError with the way to install protobuf when it is missing."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise UnsupportedError(
            f"Core ML models need the package protobuf: {install_command('coreml')}"
        ) from None
    file = descriptor_pb2.FileDescriptorProto(name="tosaic/coreml.proto", package=_PACKAGE, syntax="proto3")
    text = (pathlib.Path(__file__).parent / "coreml.proto").read_text()
    _SchemaParser(text).file(file)
    # A pool of our own: coremltools registers the same names in the default one.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        message.name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{_PACKAGE}.{message.name}")
        )
        for message in file.message_type
    }


class _SchemaParser:
    """Reads the part of the protobuf language that `coreml.proto` uses."""

    def __init__(self, text: str) -> None:
        text = re.sub(r"//[^\n]*", "", text)
        self.tokens = iter(re.findall(r'"[^"]*"|[\w.]+|[{}=;]', text))

    def file(self, file: Any) -> None:
        """Fills a FileDescriptorProto."""
        for token in self.tokens:
            if token in ("syntax", "package"):
                self._until(";")
            elif token == "message":
                self._message(file.message_type.add())
            else:
                self._enum(file.enum_type.add())

    def _until(self, end: str) -> Iterator[str]:
        return iter(list(iter(lambda: next(self.tokens), end)))

    def _enum(self, enum: Any) -> None:
        enum.name = next(self.tokens)
        words = [word for word in self._until("}") if word not in "{=;"]
        for name, number in zip(words[::2], words[1::2], strict=True):
            enum.value.add(name=name, number=int(number))

    def _message(self, message: Any) -> None:
        message.name = next(self.tokens)
        next(self.tokens)  # {
        oneof: int | None = None
        for token in self.tokens:
            if token == "}":
                if oneof is None:
                    return
                oneof = None
            elif token == "message":
                self._message(message.nested_type.add())
            elif token == "enum":
                self._enum(message.enum_type.add())
            elif token == "oneof":
                oneof = len(message.oneof_decl)
                message.oneof_decl.add(name=next(self.tokens))
                next(self.tokens)  # {
            else:
                self._field(message, token, oneof)

    def _field(self, message: Any, token: str, oneof: int | None) -> None:
        repeated = token == "repeated"
        kind = next(self.tokens) if repeated else token
        name, _, number = self._until(";")
        field = message.field.add(name=name, number=int(number), label=3 if repeated else 1)
        if oneof is not None:
            field.oneof_index = oneof
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            # A message or an enumeration; the pool finds which, and in which scope.
            field.type_name = kind
