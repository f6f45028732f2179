"""A client in Python that others wrote, with faults of a target that this test serves. PYNVMEOF_DIR
names its sources: github.com/truenas/truenas_pynvmeof_client, commit 72a79ac8a9bb.
"""

import urllib.parse

import nvmeof_client as client
import pytest


def test_their_client_sees_what_the_target_does(weft_target):
    target = weft_target(1 << 20)
    url = urllib.parse.urlsplit(target.url)
    with client.NVMeoFClient(url.hostname, target.nqn, port=url.port) as host:
        assert host.list_namespaces() == [1]
        host.write_data(1, 0, b"f" * 512)
        assert target.connect().pread(512, 0) == b"f" * 512
        target.fail("eio", count=1, operations=["read"])
        with pytest.raises(client.NVMeoFError):
            host.read_data(1, 0, 1)
        assert host.read_data(1, 0, 1) == b"f" * 512
        target.resize(2 << 20)
        assert host.get_namespace_info(1).namespace_size == (2 << 20) // 512
        target.drop_connections()
        with pytest.raises(client.NVMeoFError):
            host.read_data(1, 0, 1)
