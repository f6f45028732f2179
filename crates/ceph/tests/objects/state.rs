//! Bytes, generations and attributes.

use super::client;
use std::time::Duration;
use weft_ceph::{CephAccess, ObjectError, Objects};
use weft_testing::ceph::CephCluster;

const MOST: usize = 1 << 16;

/// Two clients with different users: of those who compare the same generation one wins, and no
/// count is lost.
#[test]
fn of_those_who_replace_one_generation_one_wins() {
    const THREADS: u64 = 8;
    const EACH: u64 = 25;
    let Some(cluster) = CephCluster::shared() else { return };
    let clients = [client(cluster, "admin", "counts"), client(cluster, "user", "counts")];
    let add = |objects: &Objects| {
        loop {
            let (before, bytes) = objects.read("counter", 8).unwrap().unwrap_or_default();
            let count = bytes.try_into().map_or(0, u64::from_le_bytes);
            assert_eq!(count, before, "bytes and generation are of one instant");
            if let Some(after) =
                objects.replace("counter", before, &(count + 1).to_le_bytes()).unwrap()
            {
                assert_eq!(after, before + 1);
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for n in 0..THREADS {
            let (add, objects) = (&add, clients[n as usize % 2].clone());
            scope.spawn(move || (0..EACH).for_each(|_| add(&objects)));
        }
    });
    for objects in &clients {
        assert_eq!(objects.generation("counter"), Ok(THREADS * EACH));
        assert_eq!(
            objects.read("counter", 8),
            Ok(Some((THREADS * EACH, (THREADS * EACH).to_le_bytes().to_vec())))
        );
    }
}

#[test]
fn an_object_comes_and_goes() {
    let Some(cluster) = CephCluster::shared() else { return };
    let (objects, other) = (client(cluster, "admin", "goes"), client(cluster, "user", "goes"));
    assert_eq!((objects.generation("goes"), objects.read("goes", MOST)), (Ok(0), Ok(None)));
    assert_eq!(objects.attributes("goes").unwrap().len(), 0);
    assert_eq!(
        (objects.replace("goes", 1, b"x"), objects.remove("goes", 1)),
        (Ok(None), Ok(false))
    );
    assert_eq!(
        (objects.replace("goes", 0, b"one"), other.replace("goes", 0, b"two")),
        (Ok(Some(1)), Ok(None))
    );
    assert_eq!(other.replace("goes", 1, b"second"), Ok(Some(2)));
    assert_eq!(objects.read("goes", MOST), Ok(Some((2, b"second".to_vec()))));
    assert_eq!(objects.replace("goes", 2, b""), Ok(Some(3)), "it gets shorter");
    assert_eq!(objects.read("goes", 0), Ok(Some((3, Vec::new()))));
    assert_eq!((objects.remove("goes", 2), objects.remove("goes", 3)), (Ok(false), Ok(true)));
    assert_eq!((other.generation("goes"), other.replace("goes", 3, b"x")), (Ok(0), Ok(None)));
    assert_eq!(other.replace("goes", 0, b"again"), Ok(Some(1)), "it begins anew");
    assert_eq!(objects.notify("absent", b"", Duration::from_secs(1)), Err(ObjectError::NotFound));
    assert!(matches!(objects.watch("absent", |_| ()), Err(ObjectError::NotFound)));
}

/// Attributes need no generation, and an object that has only attributes can be given bytes.
#[test]
fn attributes_are_beside_the_bytes() {
    let Some(cluster) = CephCluster::shared() else { return };
    let objects = client(cluster, "user", "beside");
    objects.set_attribute("beside", "gateway 1", b"here").unwrap();
    assert_eq!((objects.generation("beside"), objects.read("beside", MOST)), (Ok(0), Ok(None)));
    assert_eq!(objects.replace("beside", 0, b"bytes"), Ok(Some(1)));
    assert_eq!(objects.replace("beside", 0, b"others"), Ok(None));
    let long = vec![7; 3000];
    for (name, value) in
        [("gateway 1", &b"gone"[..]), ("ü/\n", b"\0\xff"), ("empty", b""), ("long", &long)]
    {
        objects.set_attribute("beside", name, value).unwrap();
    }
    let all = objects.attributes("beside").unwrap();
    assert_eq!(all.keys().collect::<Vec<_>>(), ["empty", "gateway 1", "long", "ü/\n"]);
    assert_eq!(
        (&all["gateway 1"][..], &all["ü/\n"][..], &all["empty"][..]),
        (&b"gone"[..], &b"\0\xff"[..], &b""[..])
    );
    assert_eq!(all["long"], long);
    assert_eq!(objects.read("beside", MOST), Ok(Some((1, b"bytes".to_vec()))));
    let said = objects.set_attribute("beside", "generation", b"9").unwrap_err().to_string();
    assert!(said.contains("another name"), "{said}");
}

#[test]
fn sizes_have_ends() {
    let Some(cluster) = CephCluster::shared() else { return };
    let objects = client(cluster, "user", "sizes");
    let large: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
    assert_eq!(objects.replace("large", 0, &large), Ok(Some(1)));
    assert_eq!(objects.read("large", large.len()), Ok(Some((1, large.clone()))));
    assert_eq!(objects.read("large", large.len() - 1), Err(ObjectError::TooLong));
    assert_eq!(objects.read("large", 0), Err(ObjectError::TooLong));
    assert_eq!(objects.replace("large", 1, &vec![0; 100 << 20]), Err(ObjectError::TooLong));
    assert_eq!(objects.replace("large", u64::MAX, b""), Err(ObjectError::TooLong));
    assert_eq!(objects.generation("large"), Ok(1));
    assert_eq!(objects.replace(&"x".repeat(5000), 0, b""), Err(ObjectError::TooLong));
}

#[test]
fn names_are_what_they_are() {
    let Some(cluster) = CephCluster::shared() else { return };
    let objects = client(cluster, "user", "names");
    let names =
        ["a b", "a/b", "a\nb", "ümläut", "'\"$()", "nqn.2014-08.org.example:disk", "..", "\u{1}"];
    for (n, name) in (1u8..).zip(names) {
        assert_eq!(objects.replace(name, 0, &[n]), Ok(Some(1)), "{name:?}");
    }
    for (n, name) in (1u8..).zip(names) {
        assert_eq!(objects.read(name, 1), Ok(Some((1, vec![n]))), "{name:?}");
    }
    for name in ["", "a\0b"] {
        assert!(matches!(objects.generation(name), Err(ObjectError::Failed(_))), "{name:?}");
        assert!(objects.set_attribute("names", name, b"").is_err(), "{name:?}");
    }
    assert_eq!(objects.replace("a\n", 0, b"other"), Ok(Some(1)));
}

/// A namespace of a pool has objects of its own, and what cannot be opened is told.
#[test]
fn pools_and_namespaces_are_apart() {
    let Some(cluster) = CephCluster::shared() else { return };
    let access = CephAccess { conf: Some(cluster.conf()), id: Some("user".into()), keyring: None };
    let open = |access: &CephAccess, pool, namespace| {
        Objects::open(access, pool, namespace, Duration::from_secs(60))
    };
    let (here, there) =
        (open(&access, "rbd", "here").unwrap(), open(&access, "rbd", "there").unwrap());
    assert_eq!(here.client(), there.client(), "they share a client");
    assert_eq!(
        (here.replace("one", 0, b"here"), there.replace("one", 0, b"there")),
        (Ok(Some(1)), Ok(Some(1)))
    );
    assert_eq!(here.read("one", MOST), Ok(Some((1, b"here".to_vec()))));
    let said = open(&access, "absent", "").err().expect("there is no such pool").to_string();
    assert!(said.contains("ceph osd pool ls"), "{said}");
    let reader = open(&CephAccess { id: Some("reader".into()), ..access }, "rbd", "here").unwrap();
    assert_eq!(reader.read("one", MOST), Ok(Some((1, b"here".to_vec()))));
    for refused in
        [reader.replace("one", 1, b"x").err(), reader.set_attribute("one", "a", b"").err()]
    {
        assert!(refused.is_some_and(|e| e.to_string().contains("ceph auth caps")));
    }
}
