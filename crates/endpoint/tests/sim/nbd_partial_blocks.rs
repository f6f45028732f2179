//! NBD requests within one block, from several clients, over a device that takes its time: each
//! reads the block before another has written it.

use crate::devices::Testing;
use crate::sim::crowd::nbd_client;
use crate::sim::protocols::{AnyScene, Protocol};
use crate::sim::puppet::Puppet;
use crate::sim::scene::Setup;
use std::time::Duration;

/// Clients, each with so many bytes of its own in the first two blocks.
const CLIENTS: usize = 6;
const OWN: usize = 37;
const FIRST: usize = 500;

/// A request in its compact form, with its data.
fn request(command: u16, at: usize, bytes: usize, data: &[u8]) -> Vec<u8> {
    let fields =
        [&0x2560_9513_u32.to_be_bytes()[..], &[0; 2], &command.to_be_bytes(), &7_u64.to_be_bytes()];
    [&fields.concat()[..], &(at as u64).to_be_bytes(), &(bytes as u32).to_be_bytes(), data].concat()
}

/// The simple replies of all clients, with so many bytes of data each.
fn replies(scene: &mut AnyScene, clients: &[Puppet], bytes: usize) -> Vec<Vec<u8>> {
    let all =
        |clients: &[Puppet]| clients.iter().all(|client| client.received_bytes() >= 16 + bytes);
    assert!(
        scene.world.run_until(|_| all(clients), Duration::from_secs(10)),
        "everybody is answered"
    );
    clients.iter().map(Puppet::take_bytes).collect()
}

#[test]
fn nobody_loses_what_he_writes_within_a_block() {
    let device = Testing::new("ram:1MiB");
    device.knobs.set_delay(Duration::from_millis(1));
    let mut scene = Protocol::Nbd.scene(Setup::new(1, device));
    let clients: Vec<Puppet> = (0..CLIENTS).map(|_| nbd_client(&mut scene)).collect();
    for round in 1..=20_u8 {
        for (n, client) in clients.iter().enumerate() {
            client.put(&request(1, FIRST + n * OWN, OWN, &[round ^ n as u8; OWN]));
        }
        for reply in replies(&mut scene, &clients, 0) {
            assert_eq!(reply[4..8], [0; 4], "a write that meets another is tried again");
        }
        clients[0].put(&request(0, FIRST, CLIENTS * OWN, &[]));
        let read = replies(&mut scene, &clients[..1], CLIENTS * OWN).remove(0);
        for (n, own) in read[16..].chunks(OWN).enumerate() {
            assert_eq!(own, [round ^ n as u8; OWN], "round {round}, client {n}");
        }
    }
    clients.iter().for_each(Puppet::hang_up);
    scene.settle(Duration::from_secs(10));
}
