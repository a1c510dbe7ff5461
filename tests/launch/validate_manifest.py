#!/usr/bin/env python3
"""Validates Kubernetes manifests against a schema, and refuses fields that it does not know.

usage: validate_manifest.py SCHEMA [MANIFEST...]    manifests; default: standard input

SCHEMA is a JSON schema (mpijob.schema.json), or YAML with a CustomResourceDefinition, such as
deploy/v2beta1/mpi-operator.yaml of https://github.com/kubeflow/mpi-operator, which has the pods' schema, too.
Needs python3-yaml and python3-jsonschema.
"""

import json
import sys
from pathlib import Path

import jsonschema
import yaml


def closed(schema):
    """The schema without room for unknown fields, as with `kubectl create --validate=strict`."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(value) for key, value in schema.items()}
    preserved = schema.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(result.get("properties"), dict) and result.get("type") == "object" and not preserved:
        result.setdefault("additionalProperties", False)
    return result


def load_schema(text):
    """The schema in a JSON schema, or of the newest version in a CustomResourceDefinition."""
    if text.lstrip().startswith("{"):
        return json.loads(text)
    for document in yaml.safe_load_all(text):
        if document and document.get("kind") == "CustomResourceDefinition":
            schema = document["spec"]["versions"][-1]["schema"]["openAPIV3Schema"]
            schema["properties"]["metadata"] = {"type": "object"}  # Kubernetes' own
            return closed(schema)
    raise ValueError("no CustomResourceDefinition in the file")


def findings(schema, text):
    """Lines "path: message" for what is wrong with each document of the text."""
    validator = jsonschema.Draft7Validator(schema)
    for document in yaml.safe_load_all(text):
        for error in validator.iter_errors(document):
            yield "/".join(map(str, error.absolute_path)) + ": " + error.message[:300]


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    schema = load_schema(Path(arguments[0]).read_text(encoding="utf-8"))
    texts = [Path(name).read_text(encoding="utf-8") for name in arguments[1:]] or [sys.stdin.read()]
    found = [line for text in texts for line in findings(schema, text)]
    print("\n".join(found + [f"{len(found)} findings in {len(texts)} manifests"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
