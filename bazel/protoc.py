"""protoc with the well-known types (google/protobuf/*.proto) on its path."""

import importlib.resources
import sys

from grpc_tools import protoc

if __name__ == "__main__":
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    sys.exit(protoc.main([*sys.argv, f"-I{well_known}"]))
