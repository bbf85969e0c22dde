"""The messages of proto/, from the descriptors in protos.binpb.

They are in a pool of descriptors of their own, so that the application may load other versions of
the files that these import, as googleapis-common-protos has them (decision 0044).
"""

import importlib.resources
import types

from google.protobuf import descriptor_pb2, message_factory

_FILES = descriptor_pb2.FileDescriptorSet.FromString(
    importlib.resources.files(__package__).joinpath("protos.binpb").read_bytes())
_CLASSES = message_factory.GetMessages(_FILES.file)


def _package(name: str) -> types.SimpleNamespace:
    """Its messages, and its enumerators as generated modules have them."""
    messages = {message.DESCRIPTOR.name: message for message in _CLASSES.values()
                if message.DESCRIPTOR.file.package == name}
    enumerators = {value.name: value.number for file in _FILES.file if file.package == name
                   for enum in file.enum_type for value in enum.value}
    return types.SimpleNamespace(**messages, **enumerators)


v1 = _package("lodgekv.v1")
rpc = _package("google.rpc")
