//! The I/O engines of fio.

/// Execution of a job with an engine of fio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FioEngine {
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
pub const ENGINES: [(&str, FioEngine); 47] = [
    ("sync", FioEngine::Waits),
    ("psync", FioEngine::Waits),
    ("vsync", FioEngine::Waits),
    ("pvsync", FioEngine::Waits),
    ("pvsync2", FioEngine::Waits),
    ("mmap", FioEngine::Waits),
    ("sg", FioEngine::Waits),
    ("libaio", FioEngine::Deep),
    ("io_uring", FioEngine::Deep),
    ("posixaio", FioEngine::Deep),
    ("solarisaio", FioEngine::Deep),
    ("windowsaio", FioEngine::Deep),
    ("libiscsi", FioEngine::Deep),
    ("nbd", FioEngine::Nbd),
    ("rbd", FioEngine::Rbd),
    ("null", FioEngine::Null),
    ("io_uring_cmd", FioEngine::Refused("use io_uring with the path of the block device")),
    ("libzbc", FioEngine::Refused("zoned devices are not supported")),
    ("xnvme", FioEngine::Refused("use io_uring with the path of the block device")),
    ("libblkio", FioEngine::Refused("use io_uring with the path of the block device")),
    ("guasi", FioEngine::Refused("use libaio")),
    ("splice", FioEngine::Refused("use psync")),
    ("cpuio", FioEngine::Refused(OTHER)),
    ("exec", FioEngine::Refused("weft runs no commands of job files")),
    ("external", FioEngine::Refused("weft loads no engines")),
    ("net", FioEngine::Refused(OTHER)),
    ("netsplice", FioEngine::Refused(OTHER)),
    ("rdma", FioEngine::Refused(OTHER)),
    ("librpma_apm_client", FioEngine::Refused(OTHER)),
    ("librpma_apm_server", FioEngine::Refused(OTHER)),
    ("librpma_gpspm_client", FioEngine::Refused(OTHER)),
    ("librpma_gpspm_server", FioEngine::Refused(OTHER)),
    ("ftruncate", FioEngine::Refused(FILES)),
    ("filecreate", FioEngine::Refused(FILES)),
    ("filestat", FioEngine::Refused(FILES)),
    ("filedelete", FioEngine::Refused(FILES)),
    ("falloc", FioEngine::Refused(FILES)),
    ("e4defrag", FioEngine::Refused(FILES)),
    ("gfapi", FioEngine::Refused(SERVER)),
    ("gfapi_async", FioEngine::Refused(SERVER)),
    ("rados", FioEngine::Refused(SERVER)),
    ("libhdfs", FioEngine::Refused(SERVER)),
    ("http", FioEngine::Refused(SERVER)),
    ("pmemblk", FioEngine::Refused(MEMORY)),
    ("dev-dax", FioEngine::Refused(MEMORY)),
    ("libpmem", FioEngine::Refused(MEMORY)),
    ("mtd", FioEngine::Refused("flash without a block device is not supported")),
];

impl FioEngine {
    /// The engine with this name. A path of a file is that of an engine to load.
    pub fn named(name: &str) -> Self {
        let name = name.split(':').next().unwrap_or_default();
        let known = ENGINES.iter().find(|(known, _)| *known == name).map(|(_, engine)| *engine);
        known.unwrap_or(Self::Refused(SERVER))
    }
}

/// The engines as a table of `docs/bench.md`.
pub fn table() -> String {
    type Fits = fn(FioEngine) -> bool;
    const MEANINGS: [(Fits, &str); 6] = [
        (
            |engine| matches!(engine, FioEngine::Waits),
            "one operation in flight, whatever `iodepth`",
        ),
        (|engine| matches!(engine, FioEngine::Deep), "`iodepth` operations in flight"),
        (|engine| matches!(engine, FioEngine::Nbd), "the device is that of `uri`"),
        (
            |engine| matches!(engine, FioEngine::Rbd),
            "the device is the image of `pool`, `rbdname`, `clientname` and `clustername`",
        ),
        (
            |engine| matches!(engine, FioEngine::Null),
            "a device that keeps nothing, of `size` bytes; refused if a device is given",
        ),
        (|engine| matches!(engine, FioEngine::Refused(_)), "refused, as are all others"),
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
        assert_eq!(FioEngine::named("libaio"), FioEngine::Deep);
        assert_eq!(FioEngine::named("psync"), FioEngine::Waits);
        for refused in ["http", "nosuch", "external:/tmp/engine.so", "io_uring_cmd"] {
            assert!(matches!(FioEngine::named(refused), FioEngine::Refused(_)), "{refused}");
        }
        assert!(table().contains("`nbd`"));
    }
}
