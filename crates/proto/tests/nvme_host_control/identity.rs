//! Changes that make a namespace another one than the previous one with its identifier.

use weft_proto::nvme::host::{Difference, RemoteNamespace};
use weft_proto::nvme::types::Id128;

use super::world::World;

/// A namespace with all names.
fn known() -> RemoteNamespace {
    let namespace = World::ready().host.namespaces()[0].clone();
    RemoteNamespace {
        uuid: Some(Id128([1; 16])),
        nguid: Some(Id128([2; 16])),
        eui64: Some([3; 8]),
        ..namespace
    }
}

#[test]
fn each_name_and_the_format_is_compared() {
    let known = known();
    let bytes = known.block_bytes;
    let cases: [(&str, RemoteNamespace, Difference); 7] = [
        ("UUID", RemoteNamespace { uuid: Some(Id128([9; 16])), ..known.clone() }, Difference::Uuid),
        ("no UUID", RemoteNamespace { uuid: None, ..known.clone() }, Difference::Uuid),
        (
            "NGUID",
            RemoteNamespace { nguid: Some(Id128([9; 16])), ..known.clone() },
            Difference::Nguid,
        ),
        ("no NGUID", RemoteNamespace { nguid: None, ..known.clone() }, Difference::Nguid),
        ("EUI-64", RemoteNamespace { eui64: Some([9; 8]), ..known.clone() }, Difference::Eui64),
        ("no EUI-64", RemoteNamespace { eui64: None, ..known.clone() }, Difference::Eui64),
        (
            "block size",
            RemoteNamespace { block_bytes: bytes * 8, ..known.clone() },
            Difference::BlockSize { was: bytes, is: bytes * 8 },
        ),
    ];
    for (what, now, difference) in cases {
        assert_eq!(known.difference(&now), Some(difference), "{what}");
        assert!(now.difference(&known).is_some(), "{what}, the other way round");
    }
}

#[test]
fn a_size_may_change_with_and_without_names() {
    let known = known();
    let nameless = RemoteNamespace { uuid: None, nguid: None, eui64: None, ..known.clone() };
    for namespace in [known, nameless] {
        let grown = RemoteNamespace { blocks: namespace.blocks * 2, ..namespace.clone() };
        assert_eq!(namespace.difference(&grown), None);
        let formatted =
            RemoteNamespace { block_bytes: namespace.block_bytes * 8, ..namespace.clone() };
        assert!(namespace.difference(&formatted).is_some());
    }
}
