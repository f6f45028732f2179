//! Ranges of a disk that are measured, as options of `weft bench`, and their memory on a sparse RAM
//! disk.

use std::fmt;

/// An option of a job and its value.
pub type JobOption = (&'static str, String);

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

/// Bytes that one page of the page tables maps.
const TABLE_BYTES: u64 = 2 << 20;

/// Bytes at the end of a leg that hold the label.
const LABEL_BYTES: u64 = 1 << 20;

/// Operations that a pass keeps under way.
const PASS_DEPTH: &str = "32";

/// Ranges of equal length at equal distances, the first one at the start of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges {
    count: u64,
    bytes: u64,
    /// From the start of a range to that of the next one.
    distance: u64,
    /// Random addresses are multiples of this many bytes.
    align: u64,
}

impl Ranges {
    /// Spreads `count` ranges of `bytes`, or as long as fit, over a disk.
    pub fn spread(disk_bytes: u64, count: u64, bytes: u64, align: u64) -> Self {
        let unit = align.max(1 << 20);
        let distance = (disk_bytes - LABEL_BYTES) / count / unit * unit;
        Self { count, bytes: bytes.min(distance), distance, align }
    }

    /// The size of the region, and the zones that skip what lies between the ranges. A job goes on
    /// to the next range after `transfer` bytes.
    fn zones(&self, transfer: u64) -> Vec<JobOption> {
        if self.count == 1 {
            return vec![("size", self.bytes.to_string())];
        }
        vec![
            ("size", (self.count * self.distance).to_string()),
            ("zonemode", "strided".into()),
            ("zonesize", transfer.to_string()),
            ("zonerange", self.bytes.to_string()),
            ("zoneskip", (self.distance - self.bytes).to_string()),
        ]
    }

    /// Addresses in order, one range after the other.
    pub fn in_order(&self) -> Vec<JobOption> {
        self.zones(self.bytes)
    }

    /// Random addresses, over all ranges at once.
    pub fn at_random(&self) -> Vec<JobOption> {
        let mut options = vec![("norandommap", "1".into()), ("blockalign", self.align.to_string())];
        if self.count == 1 {
            options.push(("size", self.bytes.to_string()));
            return options;
        }
        let share = 100 / self.count;
        let parts = (0..self.count).map(|n| {
            let share = if n == 0 { 100 - share * (self.count - 1) } else { share };
            format!("{share}/{}:0/{}", self.bytes, self.distance - self.bytes)
        });
        let parts = parts.collect::<Vec<_>>().join(":");
        options.push(("size", (self.count * self.distance).to_string()));
        options.push(("random_distribution", format!("zoned_abs:{parts}")));
        options
    }

    /// One write of a page at each multiple of `step`, or of the alignment where that is more.
    pub fn pass(&self, step: u64) -> Vec<JobOption> {
        let step = step.max(self.align);
        let rw = match step - PAGE_BYTES {
            0 => "write".to_owned(),
            gap => format!("write:{gap}"),
        };
        let transfer = self.bytes / step * PAGE_BYTES;
        let mut options = vec![
            ("rw", rw),
            ("bs", PAGE_BYTES.to_string()),
            ("iodepth", PASS_DEPTH.into()),
            ("io_size", (self.count * transfer).to_string()),
        ];
        options.extend(self.zones(transfer));
        options
    }

    /// Writes all ranges once.
    pub fn filled(&self) -> Vec<JobOption> {
        let all = (self.count * self.bytes).to_string();
        let mut options =
            vec![("rw", "write".into()), ("bs", "1048576".into()), ("iodepth", "8".into())];
        options.push(("io_size", all));
        options.extend(self.in_order());
        options
    }

    /// For people: where random addresses lie.
    pub fn random_in_words(&self) -> String {
        match self.align {
            PAGE_BYTES => self.to_string(),
            align => format!("{self}, at multiples of {}", in_words(align)),
        }
    }
}

/// For people: `10 ranges of 10 GiB`.
impl fmt::Display for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => f.write_str("all of it"),
            count => write!(f, "{count} ranges of {}", in_words(self.bytes)),
        }
    }
}

/// The least power of two for the distance of random addresses with which `bytes` of a sparse disk
/// take at most `memory` bytes, of pages and page tables.
pub fn align_for(bytes: u64, memory: u64) -> u64 {
    let takes = |align: u64| {
        let pages = bytes.div_ceil(align);
        (pages + pages.min(bytes.div_ceil(TABLE_BYTES))) * PAGE_BYTES
    };
    let mut align = PAGE_BYTES;
    while takes(align) > memory && align < bytes {
        align *= 2;
    }
    align
}

/// The greatest power of two that is at most `bytes`; at least 1 MiB.
pub fn power_of_two(bytes: u64) -> u64 {
    1 << bytes.max(1 << 20).ilog2()
}

/// The source of a RAM disk on a machine with `total` bytes of memory. Linux maps at most as much at
/// a time, so that larger disks are concatenations.
pub fn ram_disk(bytes: u64, total: u64) -> String {
    if bytes < total {
        return format!("ram:{bytes}");
    }
    // A disk maps some more than it has, for alignment.
    let part = power_of_two(total.saturating_sub(64 << 20));
    let parts = format!(",ram:{part}").repeat((bytes / part) as usize);
    format!("stripe:{part}{parts}")
}

/// For people: `10 GiB`.
pub fn in_words(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units.into_iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    whole.map_or_else(|| format!("{bytes} B"), |(shift, unit)| format!("{} {unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn value<'a>(options: &'a [JobOption], name: &str) -> &'a str {
        &options.iter().find(|(other, _)| *other == name).unwrap().1
    }

    #[test]
    fn ranges_are_spread_over_the_disk_without_its_label() {
        let ranges = Ranges::spread(1024 * GIB, 10, 10 * GIB, 1 << 19);
        assert_eq!((ranges.bytes, ranges.distance), (10 * GIB, (1024 * GIB / 10) >> 20 << 20));
        assert_eq!(ranges.random_in_words(), "10 ranges of 10 GiB, at multiples of 512 KiB");
        let coarse = Ranges::spread(1024 * GIB, 10, 10 * GIB, 1 << 26);
        assert_eq!((coarse.distance % (1 << 26), coarse.bytes % (1 << 26)), (0, 0));
        let whole = Ranges::spread(2 * GIB, 1, u64::MAX, PAGE_BYTES);
        assert_eq!((whole.bytes, whole.random_in_words()), (2047 << 20, "all of it".into()));
    }

    #[test]
    fn zones_and_shares_cover_the_ranges_and_nothing_else() {
        let ranges = Ranges { count: 3, bytes: 1 << 20, distance: 1 << 24, align: 1 << 16 };
        let random = ranges.at_random();
        assert_eq!(
            value(&random, "random_distribution"),
            "zoned_abs:34/1048576:0/15728640:33/1048576:0/15728640:33/1048576:0/15728640"
        );
        assert_eq!((value(&random, "blockalign"), value(&random, "size")), ("65536", "50331648"));
        let in_order = ranges.in_order();
        assert_eq!(
            (value(&in_order, "zonesize"), value(&in_order, "zoneskip")),
            ("1048576", "15728640")
        );
        assert_eq!(value(&ranges.filled(), "io_size"), "3145728");
    }

    #[test]
    fn a_pass_writes_a_page_at_each_step_and_at_no_other_address() {
        let ranges = Ranges { count: 3, bytes: 1 << 20, distance: 1 << 24, align: 1 << 16 };
        let pass = ranges.pass(1 << 18);
        assert_eq!((value(&pass, "rw"), value(&pass, "zonesize")), ("write:258048", "16384"));
        assert_eq!(value(&pass, "io_size"), "49152");
        // Pages between the addresses were not filled.
        assert_eq!(ranges.pass(PAGE_BYTES), ranges.pass(1 << 16));
        let whole = Ranges::spread(1 << 30, 1, u64::MAX, PAGE_BYTES).pass(PAGE_BYTES);
        assert_eq!((value(&whole, "rw"), value(&whole, "io_size")), ("write", "1072693248"));
    }

    #[test]
    fn addresses_lie_as_close_as_memory_allows() {
        // 204,800 pages and 51,200 of the page tables.
        assert_eq!(align_for(100 * GIB, GIB), 1 << 19);
        assert_eq!(align_for(100 * GIB, 999 << 20), 1 << 20);
        assert_eq!(align_for(1024 * GIB, GIB), 1 << 23);
        assert_eq!(align_for(GIB, 2 * GIB), PAGE_BYTES);
        assert_eq!(align_for(GIB, 0), GIB);
        assert_eq!([power_of_two(3 * GIB), power_of_two(5)], [2 * GIB, 1 << 20]);
    }

    #[test]
    fn a_disk_that_exceeds_the_memory_has_parts() {
        assert_eq!(ram_disk(2 * GIB, 24 * GIB), "ram:2147483648");
        let parts = ",ram:17179869184".repeat(64);
        assert_eq!(ram_disk(1024 * GIB, 24 * GIB), format!("stripe:17179869184{parts}"));
        assert_eq!(ram_disk(32 * GIB, 16 * GIB).matches("ram:8589934592").count(), 4);
    }

    #[test]
    fn sizes_have_the_largest_whole_unit() {
        let words = [1 << 40, 10 << 30, 2047 << 20, 1536, 512 << 10].map(in_words);
        assert_eq!(words, ["1 TiB", "10 GiB", "2047 MiB", "1536 B", "512 KiB"]);
    }
}
