//! Converts `--filename` and `--direct` to the URL of a device.

use std::path::Path;
use weft_block::file::is_windows_device;
use weft_block::grammar;

/// Bytes of a block of a file.
const BLOCK_BYTES: u64 = 512;

/// The URL for fio's `filename`, which is a URL or the path of a file. fio writes `\\:` for a colon
/// within a name, because a plain colon separates names; weft does not split names. A file that
/// does not exist is created with the given `size`, in whole blocks.
pub fn of_filename(name: &str, size: Option<u64>) -> String {
    let name = name.replace("\\:", ":");
    if grammar::has_scheme(&name) {
        return name;
    }
    let path = if grammar::is_path(&name) { name } else { format!("./{name}") };
    match size {
        Some(size) if !is_windows_device(&path) && !Path::new(&path).exists() => {
            format!("{path},size={}", size.next_multiple_of(BLOCK_BYTES))
        }
        _ => path,
    }
}

/// Returns whether a URL refers to files or disks of this system, also among others.
pub fn is_file(url: &str) -> bool {
    grammar::sources(url).iter().any(|source| grammar::path(source.url).is_some())
}

/// Adds `direct` as an option of the files.
pub fn with_direct(url: String, direct: Option<bool>) -> String {
    let Some(direct) = direct else { return url };
    let option = if direct { "direct=on" } else { "direct=off" };
    grammar::with_option(&url, option, |source| grammar::path(source).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_colon_ends_a_name() {
        for (name, url) in [
            (
                "nvme+tcp://[::1]:4420/nqn.2014-08.org.example:x",
                "nvme+tcp://[::1]:4420/nqn.2014-08.org.example:x",
            ),
            ("ram:1MiB", "ram:1MiB"),
            ("/dev/disk/by-path/pci-0000\\:00\\:04.0", "/dev/disk/by-path/pci-0000:00:04.0"),
            ("no-such-file", "./no-such-file"),
        ] {
            assert_eq!(of_filename(name, None), url);
        }
        assert_eq!(of_filename("no-such-file", Some(4096)), "./no-such-file,size=4096");
        assert_eq!(of_filename("no-such-file", Some(1000)), "./no-such-file,size=1024");
        assert_eq!(of_filename("/", Some(4096)), "/");
    }

    #[test]
    fn direct_is_an_option_of_files() {
        let with = |url: &str| with_direct(url.to_owned(), Some(true));
        assert_eq!(with("/srv/a"), "/srv/a,direct=on");
        assert_eq!(
            with("delay:read=1us,file:/srv/a,size=1MiB"),
            "delay:read=1us,file:/srv/a,size=1MiB,direct=on"
        );
        assert_eq!(
            (with("ram:1MiB"), with("delay:ram:1MiB")),
            ("ram:1MiB".into(), "delay:ram:1MiB".into())
        );
        assert_eq!(with_direct("./a".into(), Some(false)), "./a,direct=off");
    }
}
