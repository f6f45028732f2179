//! The points of the race: what is done, how large and how deep.

/// A workload, in fio's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Short name: `4k-randread-32`.
    pub name: &'static str,
    /// For people: `4 KiB random read, depth 32`.
    pub title: &'static str,
    /// fio's `rw`.
    pub rw: &'static str,
    /// Reads in 100 operations, where `rw` is a mix.
    pub rwmixread: u8,
    /// Bytes of each operation.
    pub bytes: u32,
    /// Operations under way on each connection.
    pub iodepth: u32,
    /// Connections.
    pub connections: u32,
    /// Header and data digests on; only weft does it, the others run as without.
    pub digests: bool,
}

impl Point {
    const fn new(
        name: &'static str,
        title: &'static str,
        rw: &'static str,
        kib: u32,
        iodepth: u32,
    ) -> Self {
        Self {
            name,
            title,
            rw,
            rwmixread: 50,
            bytes: kib << 10,
            iodepth,
            connections: 1,
            digests: false,
        }
    }

    const fn mixed(name: &'static str, title: &'static str, rwmixread: u8, iodepth: u32) -> Self {
        Self { rwmixread, ..Self::new(name, title, "randrw", 4, iodepth) }
    }

    const fn over(self, connections: u32) -> Self {
        Self { connections, ..self }
    }

    const fn with_digests(self) -> Self {
        Self { digests: true, ..self }
    }

    /// Returns whether it visits places at random.
    pub fn random(&self) -> bool {
        self.rw.starts_with("rand")
    }
}

/// The point that tells fast from slow phases of the machine.
pub const CALIBRATION: Point = Point::new("calibration", "calibration", "randread", 4, 32);

/// All points, in order.
pub const POINTS: [Point; 18] = [
    Point::new("4k-randread-1", "4 KiB random read, depth 1", "randread", 4, 1),
    Point::new("4k-randread-8", "4 KiB random read, depth 8", "randread", 4, 8),
    Point::new("4k-randread-32", "4 KiB random read, depth 32", "randread", 4, 32),
    Point::new("4k-randread-128", "4 KiB random read, depth 128", "randread", 4, 128),
    Point::new("4k-randread-4x32", "4 KiB random read, four connections of 32", "randread", 4, 32)
        .over(4),
    Point::new("4k-randwrite-1", "4 KiB random write, depth 1", "randwrite", 4, 1),
    Point::new("4k-randwrite-32", "4 KiB random write, depth 32", "randwrite", 4, 32),
    Point::new("4k-randwrite-128", "4 KiB random write, depth 128", "randwrite", 4, 128),
    Point::mixed("4k-randrw-50-32", "4 KiB random read and write, 50:50, depth 32", 50, 32),
    Point::mixed("4k-randrw-50-128", "4 KiB random read and write, 50:50, depth 128", 50, 128),
    Point::mixed("4k-randrw-70-32", "4 KiB random read and write, 70:30, depth 32", 70, 32),
    Point::mixed("4k-randrw-70-128", "4 KiB random read and write, 70:30, depth 128", 70, 128),
    Point::new("64k-randread-32", "64 KiB random read, depth 32", "randread", 64, 32),
    Point::new("64k-randwrite-32", "64 KiB random write, depth 32", "randwrite", 64, 32),
    Point::new("1m-read-8", "1 MiB read, depth 8", "read", 1024, 8),
    Point::new("1m-write-8", "1 MiB write, depth 8", "write", 1024, 8),
    Point::new(
        "4k-randread-32-digests",
        "4 KiB random read, depth 32, both digests",
        "randread",
        4,
        32,
    )
    .with_digests(),
    Point::new(
        "64k-randread-32-digests",
        "64 KiB random read, depth 32, both digests",
        "randread",
        64,
        32,
    )
    .with_digests(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_done() {
        for point in POINTS {
            assert!(point.name.contains(point.rw), "{}", point.name);
            let directions = ["read", "write"]
                .map(|direction| point.rw == "randrw" || point.rw.ends_with(direction));
            assert_eq!(
                ["read", "write"].map(|direction| point.title.contains(direction)),
                directions,
                "{}",
                point.name
            );
            assert_eq!(point.title.contains("random"), point.random(), "{}", point.name);
            assert_eq!(POINTS.iter().filter(|other| other.name == point.name).count(), 1);
        }
    }
}
