//! NBD requests that begin and end within a block, while others write to the same one.

use crate::served::{self, Served};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use weft_endpoint::TlsFiles;
use weft_endpoint::export::{self, ExportConfig, Exports, iscsi};
use weft_endpoint::inventory::{InventoryBuilder, LiveInventory, NamespaceConfig, SubsystemConfig};
use weft_proto::nvme::types::{Nqn, Nsid};

const SIZE: usize = 1 << 20;

fn serve(source: &str) -> Served<Exports> {
    let nqn = Nqn::new("nqn.2026-01.example.weft:unaligned").unwrap();
    let mut builder = InventoryBuilder::default();
    builder.add_subsystem(SubsystemConfig::new(nqn.clone())).unwrap();
    let device = served::devices(&[source]).remove(0);
    builder.add_namespace(&nqn, Nsid(1), NamespaceConfig::named(device, "1")).unwrap();
    let inventory = LiveInventory::new(builder.build().unwrap());
    let config = ExportConfig {
        inventory,
        iscsi: iscsi::Settings::default(),
        tls: TlsFiles::default(),
        late_writers: Default::default(),
    };
    Served::start(&served::loops(2), |loops| {
        export::start(&config, &["nbd://127.0.0.1:0".to_owned()], loops).unwrap()
    })
}

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISC: u16 = 2;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;

/// A client that asks for the export by NBD_OPT_EXPORT_NAME, and gets simple replies.
struct Client(TcpStream);

impl Client {
    fn connect(served: &Served<Exports>) -> Self {
        let urls = served.urls();
        let address = urls[0].trim_start_matches("nbd://").split('/').next().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        // Fixed newstyle, no zeroes.
        let option =
            [&3u32.to_be_bytes()[..], b"IHAVEOPT", &1u32.to_be_bytes(), &1u32.to_be_bytes(), b"1"]
                .concat();
        stream.write_all(&option).unwrap();
        let mut export = [0; 10];
        stream.read_exact(&mut export).unwrap();
        assert_eq!(u64::from_be_bytes(export[..8].try_into().unwrap()), SIZE as u64);
        Self(stream)
    }

    /// Gives the error.
    fn ask(
        &mut self,
        command: u16,
        offset: usize,
        length: usize,
        data: &[u8],
        into: &mut [u8],
    ) -> u32 {
        let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
        request.extend([0, 0]);
        request.extend(command.to_be_bytes());
        request.extend(7u64.to_be_bytes());
        request.extend((offset as u64).to_be_bytes());
        request.extend((length as u32).to_be_bytes());
        request.extend(data);
        self.0.write_all(&request).unwrap();
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).unwrap();
        let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
        if error == 0 {
            self.0.read_exact(into).unwrap();
        }
        error
    }

    fn write(&mut self, offset: usize, data: &[u8]) {
        assert_eq!(
            self.ask(WRITE, offset, data.len(), data, &mut []),
            0,
            "{offset}+{}",
            data.len()
        );
    }

    fn read(&mut self, offset: usize, length: usize) -> Vec<u8> {
        let mut back = vec![0; length];
        assert_eq!(self.ask(READ, offset, length, &[], &mut back), 0, "{offset}+{length}");
        back
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
        request.extend([0, 0]);
        request.extend(DISC.to_be_bytes());
        request.extend([0; 20]);
        let _ = self.0.write_all(&request);
    }
}

/// All shapes: within a block, over its end, with and without whole blocks between, longer than an
/// operation of the device.
#[test]
fn any_range_is_read_and_written() {
    for source in ["ram:1MiB", "ram:1MiB,block=4096"] {
        let served = serve(source);
        let mut client = Client::connect(&served);
        let mut expected = vec![0; SIZE];
        let edges =
            [0, 1, 100, 511, 512, 513, 1000, 4095, 4096, 4097, 8192, 9999, 300_001, SIZE - 1, SIZE];
        let mut round = 0_u8;
        for (n, &from) in edges.iter().enumerate() {
            for &to in &edges[n + 1..] {
                round = round.wrapping_add(1).max(1);
                let data: Vec<u8> =
                    (0..to - from).map(|at| (at as u8).wrapping_mul(31) ^ round).collect();
                client.write(from, &data);
                expected[from..to].copy_from_slice(&data);
                assert!(
                    client.read(from, to - from) == expected[from..to],
                    "{source}: {from}..{to}"
                );
            }
        }
        assert!(client.read(0, SIZE) == expected, "{source}: nothing beside them has changed");
        for (from, to) in [
            (10, 20),
            (500, 600),
            (1000, 10_000),
            (12_288, 12_289),
            (20_480, 24_576),
            (99, 300_000),
        ] {
            client.write(0, &vec![0xee; SIZE]);
            assert_eq!(client.ask(WRITE_ZEROES, from, to - from, &[], &mut []), 0);
            let mut expected = vec![0xee; SIZE];
            expected[from..to].fill(0);
            assert!(client.read(0, SIZE) == expected, "{source}: zeroes at {from}..{to}");
            // A trim may leave anything within its range, and nothing else.
            client.write(0, &vec![0xee; SIZE]);
            assert_eq!(client.ask(TRIM, from, to - from, &[], &mut []), 0);
            let after = client.read(0, SIZE);
            assert!(
                after[..from].iter().chain(&after[to..]).all(|&byte| byte == 0xee),
                "{source}: trim of {from}..{to}"
            );
        }
    }
}

/// Each connection has bytes of its own in the same one or two blocks.
#[test]
fn nobody_loses_what_he_wrote_beside_others() {
    const WRITERS: usize = 6;
    for source in ["ram:1MiB", "ram:1MiB,block=4096"] {
        let served = serve(source);
        let clients: Vec<Client> = (0..WRITERS).map(|_| Client::connect(&served)).collect();
        std::thread::scope(|scope| {
            for (writer, mut client) in clients.into_iter().enumerate() {
                scope.spawn(move || {
                    for round in 0..150_u8 {
                        let at = 500 + 37 * writer;
                        client.write(at, &[round; 37]);
                        assert_eq!(client.read(at, 37), [round; 37], "{source}: writer {writer}");
                    }
                });
            }
        });
        let mut client = Client::connect(&served);
        assert_eq!(client.read(500, 37 * WRITERS), [149; 37 * WRITERS]);
    }
}
