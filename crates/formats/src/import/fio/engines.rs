//! The I/O engines of fio.

/// Execution of a job with an engine of fio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// It keeps `iodepth` operations in flight.
    Deep,
    /// It waits for each operation: `iodepth` means nothing to it.
    Waits,
    /// There is no device.
    Null,
    /// The device is that of `uri`.
    Nbd,
    /// The device is an image of a Ceph cluster.
    Rbd,
    /// A job with it does not run, for this reason.
    Refused(&'static str),
}

const FILES: &str = "it works on files as a whole, not on their blocks";
const SERVER: &str = "weft has no client of this kind";
const MEMORY: &str = "it uses memory that is mapped";
const OTHER: &str = "it moves no data of a block device";

/// Every engine of fio 3.33.
pub const ENGINES: [(&str, Engine); 47] = [
    ("sync", Engine::Waits),
    ("psync", Engine::Waits),
    ("vsync", Engine::Waits),
    ("pvsync", Engine::Waits),
    ("pvsync2", Engine::Waits),
    ("mmap", Engine::Waits),
    ("sg", Engine::Waits),
    ("libaio", Engine::Deep),
    ("io_uring", Engine::Deep),
    ("posixaio", Engine::Deep),
    ("solarisaio", Engine::Deep),
    ("windowsaio", Engine::Deep),
    ("libiscsi", Engine::Deep),
    ("nbd", Engine::Nbd),
    ("rbd", Engine::Rbd),
    ("null", Engine::Null),
    ("io_uring_cmd", Engine::Refused("use io_uring with the path of the block device")),
    ("libzbc", Engine::Refused("zoned devices are not supported")),
    ("xnvme", Engine::Refused("use io_uring with the path of the block device")),
    ("libblkio", Engine::Refused("use io_uring with the path of the block device")),
    ("guasi", Engine::Refused("use libaio")),
    ("splice", Engine::Refused("use psync")),
    ("cpuio", Engine::Refused(OTHER)),
    ("exec", Engine::Refused("weft runs no commands of job files")),
    ("external", Engine::Refused("weft loads no engines")),
    ("net", Engine::Refused(OTHER)),
    ("netsplice", Engine::Refused(OTHER)),
    ("rdma", Engine::Refused(OTHER)),
    ("librpma_apm_client", Engine::Refused(OTHER)),
    ("librpma_apm_server", Engine::Refused(OTHER)),
    ("librpma_gpspm_client", Engine::Refused(OTHER)),
    ("librpma_gpspm_server", Engine::Refused(OTHER)),
    ("ftruncate", Engine::Refused(FILES)),
    ("filecreate", Engine::Refused(FILES)),
    ("filestat", Engine::Refused(FILES)),
    ("filedelete", Engine::Refused(FILES)),
    ("falloc", Engine::Refused(FILES)),
    ("e4defrag", Engine::Refused(FILES)),
    ("gfapi", Engine::Refused(SERVER)),
    ("gfapi_async", Engine::Refused(SERVER)),
    ("rados", Engine::Refused(SERVER)),
    ("libhdfs", Engine::Refused(SERVER)),
    ("http", Engine::Refused(SERVER)),
    ("pmemblk", Engine::Refused(MEMORY)),
    ("dev-dax", Engine::Refused(MEMORY)),
    ("libpmem", Engine::Refused(MEMORY)),
    ("mtd", Engine::Refused("flash without a block device is not supported")),
];

impl Engine {
    /// The engine with this name. A path of a file is that of an engine to load.
    pub fn named(name: &str) -> Self {
        let name = name.split(':').next().unwrap_or_default();
        let known = ENGINES.iter().find(|(known, _)| *known == name).map(|(_, engine)| *engine);
        known.unwrap_or(Self::Refused(SERVER))
    }
}

/// The engines as a table of `docs/bench.md`.
pub fn table() -> String {
    type Fits = fn(Engine) -> bool;
    const MEANINGS: [(Fits, &str); 6] = [
        (|engine| matches!(engine, Engine::Waits), "one operation in flight, whatever `iodepth`"),
        (|engine| matches!(engine, Engine::Deep), "`iodepth` operations in flight"),
        (|engine| matches!(engine, Engine::Nbd), "the device is that of `uri`"),
        (
            |engine| matches!(engine, Engine::Rbd),
            "the device is the image of `pool`, `rbdname`, `clientname` and `clustername`",
        ),
        (
            |engine| matches!(engine, Engine::Null),
            "a device that keeps nothing, of `size` bytes; refused if a device is given",
        ),
        (|engine| matches!(engine, Engine::Refused(_)), "refused, as are all others"),
    ];
    let mut text = String::from("| `ioengine` | |\n|---|---|\n");
    for (fits, meaning) in MEANINGS {
        let names = ENGINES.iter().filter(|(_, engine)| fits(*engine));
        let names = names.map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        text += &format!("| {names} | {meaning} |\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_known_or_refused() {
        assert_eq!(Engine::named("libaio"), Engine::Deep);
        assert_eq!(Engine::named("psync"), Engine::Waits);
        for refused in ["http", "nosuch", "external:/tmp/engine.so", "io_uring_cmd"] {
            assert!(matches!(Engine::named(refused), Engine::Refused(_)), "{refused}");
        }
        assert!(table().contains("`nbd`"));
    }
}
