//! Clients that are kept out of the cluster.

use super::client;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weft_ceph::ObjectError;
use weft_testing::ceph::CephCluster;
use weft_testing::wait::until;

/// Objects that the one who is fenced writes to, each from a thread of its own.
const WRITERS: usize = 4;

/// What a client had under way when it was fenced is done before the fence holds, or never.
#[test]
fn nothing_of_a_fenced_client_arrives_later() {
    let Some(cluster) = CephCluster::shared() else { return };
    let (one, fenced) = (client(cluster, "user", "fences"), client(cluster, "user", "fenced"));
    let address = fenced.client().unwrap();
    assert_ne!(one.client().unwrap(), address);
    let written: Arc<[AtomicU64; WRITERS]> = Arc::default();
    let names: Vec<String> = (0..WRITERS).map(|n| format!("fenced {n}")).collect();
    std::thread::scope(|scope| {
        for (n, name) in names.iter().enumerate() {
            let (fenced, written) = (fenced.clone(), Arc::clone(&written));
            scope.spawn(move || {
                for generation in 0.. {
                    match fenced.replace(name, generation, b"x") {
                        Ok(after) => assert_eq!(after, Some(generation + 1)),
                        Err(error) => return assert_eq!(error, ObjectError::Blocklisted),
                    }
                    written[n].store(generation + 1, Ordering::SeqCst);
                }
            });
        }
        until("all of them write", || written.iter().all(|count| count.load(Ordering::SeqCst) > 3));
        one.fence(&address).unwrap();
        let at_the_fence: Vec<u64> =
            names.iter().map(|name| one.generation(name).unwrap()).collect();
        // Further writes of this client come after whatever arrives.
        for _ in 0..10 {
            let now: Vec<u64> = names.iter().map(|name| one.generation(name).unwrap()).collect();
            assert_eq!(now, at_the_fence);
            one.set_attribute("fence", "beat", b"").unwrap();
        }
        for (count, generation) in written.iter().zip(&at_the_fence) {
            assert!(count.load(Ordering::SeqCst) <= *generation, "what was acknowledged is there");
        }
    });
    assert_eq!(fenced.set_attribute("fenced 0", "a", b""), Err(ObjectError::Blocklisted));
    assert_eq!(fenced.remove("fenced 0", 1), Err(ObjectError::Blocklisted));
    assert_eq!(fenced.generation("fenced 0"), Err(ObjectError::Blocklisted));
    assert_eq!(fenced.read("fenced 0", 10), Err(ObjectError::Blocklisted));
    assert_eq!(fenced.attributes("fenced 0"), Err(ObjectError::Blocklisted));
    assert_eq!(
        fenced.notify("fenced 0", b"", Duration::from_secs(1)),
        Err(ObjectError::Blocklisted)
    );
    assert!(matches!(fenced.watch("fenced 0", |_| ()), Err(ObjectError::Blocklisted)));
    one.fence(&address).unwrap();
    assert_eq!(
        one.replace("fenced 0", one.generation("fenced 0").unwrap(), b"y")
            .map(|after| after.is_some()),
        Ok(true)
    );
}

/// Another one that connects anew is another client.
#[test]
fn a_fenced_client_loses_its_watches() {
    let Some(cluster) = CephCluster::shared() else { return };
    let (one, fenced) = (client(cluster, "admin", "watches"), client(cluster, "user", "watches"));
    one.replace("guarded", 0, b"").unwrap();
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let watch = fenced
        .watch("guarded", move |message| drop(tell.lock().unwrap().send(message.bytes().to_vec())))
        .ok()
        .unwrap();
    one.fence(&fenced.client().unwrap()).unwrap();
    assert_eq!(told.recv_timeout(Duration::from_secs(100)).unwrap(), b"");
    until("the watch is lost", || !watch.is_kept());
    drop(watch);
    drop(fenced);
    let again = client(cluster, "user", "watches");
    assert_eq!(again.replace("guarded", 1, b"again"), Ok(Some(2)));
}

/// Whoever has no right to fence is told.
#[test]
fn guests_do_not_fence() {
    let Some(cluster) = CephCluster::shared() else { return };
    let (one, guest) = (client(cluster, "admin", "stays"), client(cluster, "guest", "stays"));
    let said = guest.fence(&one.client().unwrap()).unwrap_err().to_string();
    assert!(said.contains("ceph auth caps"), "{said}");
    assert_eq!(one.replace("stays", 0, b""), Ok(Some(1)));
}
