//! Messages to those who watch an object.

use super::client;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;
use weft_ceph::{CephWatch, NotifyMessage, Objects};
use weft_testing::ceph::CephCluster;
use weft_testing::wait::until;

/// So long that a loaded machine has answered.
const LONG: Duration = Duration::from_secs(100);

/// A watch, and the messages that it has heard.
fn watch(objects: &Objects, object: &str) -> (CephWatch, Receiver<Vec<u8>>) {
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let heard =
        move |message: NotifyMessage| drop(tell.lock().unwrap().send(message.bytes().to_vec()));
    (objects.watch(object, heard).unwrap_or_else(|e| panic!("{e}")), told)
}

#[test]
fn all_who_watch_hear_it() {
    let Some(cluster) = CephCluster::shared() else { return };
    let (one, other) = (client(cluster, "admin", "hears"), client(cluster, "user", "hears"));
    one.replace("heard", 0, b"").unwrap();
    assert_eq!(one.notify("heard", b"to nobody", LONG).map(|heard| heard.all), Ok(true));
    let (first, first_told) = watch(&one, "heard");
    let (second, second_told) = watch(&other, "heard");
    let long = vec![5; 10_000];
    for message in [&b"hello"[..], b"", &long] {
        assert_eq!(other.notify("heard", message, LONG).map(|heard| heard.all), Ok(true));
        // It has returned, so both have acknowledged, and so both were told.
        assert_eq!(
            (first_told.try_recv().unwrap(), second_told.try_recv().unwrap()),
            (message.to_vec(), message.to_vec())
        );
    }
    assert!(first.is_kept() && second.is_kept());
    drop(first);
    assert!(first_told.recv().is_err(), "what heard is gone with its watch");
    assert_eq!(one.notify("heard", b"more", LONG).map(|heard| heard.all), Ok(true));
    assert_eq!(second_told.try_recv().unwrap(), b"more");
    one.set_attribute("heard", "a", b"").unwrap();
    assert!(second_told.try_recv().is_err(), "a change alone tells nobody");
}

/// Whoever does not acknowledge holds a message up to its limit, and no longer.
#[test]
fn whoever_does_not_acknowledge_is_told_of() {
    let Some(cluster) = CephCluster::shared() else { return };
    let (one, slow) = (client(cluster, "admin", "slow"), client(cluster, "user", "slow"));
    one.replace("slow", 0, b"").unwrap();
    let (quick, told) = watch(&one, "slow");
    let gate = Arc::new(Barrier::new(2));
    let at = Arc::clone(&gate);
    let wait = move |_: NotifyMessage| {
        at.wait();
    };
    let watch = slow.watch("slow", wait).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        one.notify("slow", b"are you there?", Duration::from_millis(1)).map(|heard| heard.all),
        Ok(false)
    );
    assert_eq!(told.try_recv().unwrap(), b"are you there?", "the other one has heard it");
    gate.wait();
    drop((watch, quick));
}

/// An answer may come later, from another thread, and says something.
#[test]
fn answers_are_told() {
    let Some(cluster) = CephCluster::shared() else { return };
    let (one, other) = (client(cluster, "admin", "answers"), client(cluster, "user", "answers"));
    one.replace("asked", 0, b"").unwrap();
    let watch = |of: &Objects, name: &'static str| {
        let heard = move |message: NotifyMessage| {
            std::thread::spawn(move || message.answer(name.as_bytes()));
        };
        of.watch("asked", heard).unwrap_or_else(|e| panic!("{e}"))
    };
    let watches = [watch(&one, "one"), watch(&other, "the other")];
    let mut heard = one.notify("asked", b"who is there?", LONG).unwrap();
    heard.answers.sort();
    assert_eq!((heard.all, heard.answers), (true, vec![b"one".to_vec(), b"the other".to_vec()]));
    drop(watches);
}

/// Losing a watch is told, and it stays lost; a new one hears again.
#[test]
fn a_watch_that_is_lost_is_told() {
    let Some(cluster) = CephCluster::shared() else { return };
    let objects = client(cluster, "user", "loses");
    objects.replace("lost", 0, b"").unwrap();
    let (first, told) = watch(&objects, "lost");
    assert!(objects.remove("lost", 1).unwrap());
    assert_eq!(told.recv_timeout(LONG).unwrap(), b"");
    until("the watch is lost", || !first.is_kept());
    objects.replace("lost", 0, b"").unwrap();
    let (second, told_again) = watch(&objects, "lost");
    assert_eq!(objects.notify("lost", b"again", LONG).map(|heard| heard.all), Ok(true));
    assert_eq!((told_again.try_recv().unwrap(), told.try_recv().ok()), (b"again".to_vec(), None));
    assert!(second.is_kept() && !first.is_kept());
}

/// The library watches again where the daemon is back before it counts as lost.
#[test]
fn a_watch_outlives_a_daemon() {
    let Some(cluster) = CephCluster::start(1) else { return };
    let (one, other) =
        (client(&cluster, "admin", "outlives"), client(&cluster, "user", "outlives"));
    one.replace("kept", 0, b"").unwrap();
    let (watch, told) = watch(&one, "kept");
    cluster.signal("osd.0", "KILL");
    cluster.launch("osd.0");
    // Until the watch is there again, nobody hears; or the watch was lost, which is told.
    until("the message is heard", || {
        let asked = other.notify("kept", b"back", LONG);
        assert!(asked.is_ok(), "{asked:?}");
        told.try_iter().any(|message| message == b"back" || message.is_empty())
    });
    assert!(watch.is_kept());
}
