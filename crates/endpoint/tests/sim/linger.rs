//! The end of a connection whose peer broke the protocol: what it still sends is taken for a while,
//! as a system that closes a socket with input unread throws away what it has sent, too.

use crate::devices::Testing;
use crate::sim::protocols::{AnyScene, Protocol};
use crate::sim::puppet::Puppet;
use crate::sim::scene::Setup;
use std::time::Duration;
use weft_endpoint::limits::{LINGER_MS, LINGERING_MAX};

const MOMENT: Duration = Duration::from_millis(LINGER_MS / 10);

fn scene() -> AnyScene {
    Protocol::NvmeTcp.scene(Setup::new(1, Testing::new("ram:1MiB")))
}

/// Drivers on the target's loop.
fn drivers(scene: &AnyScene) -> usize {
    scene.world.handle(scene.target_loops[0]).live_drivers()
}

/// Peers that speak something else, and have been told so.
fn broken(scene: &mut AnyScene, peers: usize) -> Vec<Puppet> {
    let peers: Vec<_> = (0..peers).map(|_| Puppet::new(scene)).collect();
    peers.iter().for_each(|peer| peer.put(&[0xff; 64]));
    assert!(scene.world.run_until(
        |_| peers.iter().all(|peer| peer.received_bytes() >= 24),
        Duration::from_secs(10)
    ));
    scene.world.run_for(MOMENT);
    assert_eq!(scene.target.connections(), 0, "they have no place any more");
    peers
}

#[test]
fn whoever_goes_on_sending_is_heard_for_a_while() {
    let mut scene = scene();
    let before = drivers(&scene);
    let _peers = broken(&mut scene, 1);
    assert_eq!(drivers(&scene), before + 1, "its stream is kept");
    scene.world.run_for(Duration::from_millis(LINGER_MS) - 3 * MOMENT);
    assert_eq!(drivers(&scene), before + 1);
    scene.world.run_for(3 * MOMENT);
    assert_eq!(drivers(&scene), before, "and not for ever");
}

#[test]
fn whoever_hangs_up_is_let_go_at_once() {
    let mut scene = scene();
    let before = drivers(&scene);
    let peers = broken(&mut scene, 1);
    peers.iter().for_each(Puppet::hang_up);
    scene.world.run_for(MOMENT);
    assert_eq!(drivers(&scene), before);
}

#[test]
fn only_so_many_are_heard_at_a_time() {
    let mut scene = scene();
    let before = drivers(&scene);
    let _peers = broken(&mut scene, LINGERING_MAX + 6);
    assert_eq!(drivers(&scene), before + LINGERING_MAX);
}
