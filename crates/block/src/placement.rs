//! Placement of the bytes of a device, as text. A program that continues the work of an earlier one
//! compares it, so that it does not mistake another device, or the same disks arranged differently,
//! for the previous one.

use crate::limits::STRIPE_CHUNK_BYTES;
use crate::units::parse_size;
use crate::url::grammar;
use crate::url::grammar::{LISTS, scheme};

/// Options that do not decide where a byte lies: how sources are used, names, and what the size
/// says as well. All others may decide it, also those that a later version adds.
const OTHER_OPTIONS: [&str; 12] = [
    "block",
    "direct",
    "force",
    "hot",
    "id",
    "keyring",
    "lock",
    "size",
    "state",
    "tls-certificates",
    "tls-hostname",
    "uuid",
];

/// Returns the placement of the device at `url`: its lists with their chunks, and in them their
/// sources in order, with all options that may affect it. Filters move nothing and are left out.
/// Two URLs with one placement may have different block sizes and sizes; their devices tell these.
pub fn placement(url: &str) -> String {
    let (rest, _) = grammar::without_filters(url);
    if let (Some(kind), behind) = scheme(rest)
        && LISTS.contains(&kind)
        && let Ok(list) = grammar::list(behind, LISTS)
    {
        let (main, options) = grammar::list_head(list.head);
        let head = with_options(format!("{kind}:{}", list_main(kind, main)), options);
        let members = list.sources.into_iter().map(placement);
        return [head].into_iter().chain(members).collect::<Vec<_>>().join(",");
    }
    let (main, options) = grammar::options(rest);
    let path = grammar::path(rest).map(|path| format!("file:{path}"));
    with_options(path.unwrap_or_else(|| main.to_owned()), options)
}

/// The main part of a list, however its chunk is written.
fn list_main(kind: &str, main: &str) -> String {
    if kind != "stripe" {
        return main.to_owned();
    }
    let chunk_bytes = match main {
        "" => Ok(STRIPE_CHUNK_BYTES),
        _ => parse_size(main),
    };
    chunk_bytes.map_or_else(|_| main.to_owned(), |bytes| bytes.to_string())
}

/// Adds the options that may decide where a byte lies, in one order.
fn with_options(mut main: String, mut options: Vec<(&str, &str)>) -> String {
    options.retain(|(name, _)| !OTHER_OPTIONS.contains(name));
    options.sort_unstable();
    for (name, value) in options {
        main.extend([",", name, "=", value]);
    }
    main
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_decides_where_a_byte_lies_makes_another_one() {
        const DISKS: [&str; 8] = [
            "file:/a",
            "file:/b",
            "nbd://h/a",
            "nbd://h/b",
            "nbd+unix:///1,socket=/run/a",
            "nbd+unix:///1,socket=/run/b",
            "rbd:pool/image",
            "rbd:pool/image,conf=/etc/other.conf",
        ];
        let mut all: Vec<String> = DISKS.map(str::to_owned).to_vec();
        for one in DISKS {
            for other in DISKS {
                for list in ["stripe:4KiB", "stripe:64KiB", "stripe:64KiB,later=1", "mirror:"] {
                    let head = list.strip_suffix(':').map_or(format!("{list},"), |_| list.into());
                    all.push(format!("{head}{one},{other}"));
                    all.push(format!("{head}{one},{other},file:/c"));
                }
            }
        }
        let mut placements: Vec<_> = all.iter().map(|url| placement(url)).collect();
        placements.sort();
        placements.dedup();
        assert_eq!(placements.len(), all.len());
    }

    #[test]
    fn what_moves_no_byte_makes_no_difference() {
        for (one, other) in [
            ("/a", "readonly:file:/a,size=1MiB,direct=off,block=4096"),
            ("file:/odd,size=1,", "file:/odd,size=1,,lock=off"),
            ("stripe:65536,/a,/b", "limit:bw=1MB,stripe:64KiB,file:/a,uuid=1,delay:read=1us,/b"),
            (
                "stripe:,nbd://h/a,nbd://h/b",
                &format!("stripe:{STRIPE_CHUNK_BYTES},nbd://h/a,nbd://h/b"),
            ),
            ("stripe:uuid=1,/a,/b", "stripe:/a,/b"),
            ("mirror:state=/s,hot=1GiB,/a,/b", "mirror:/a,stats:/b"),
            ("rbd:p/i,conf=/c,id=a", "rbd:p/i,keyring=/k,conf=/c"),
            ("nbd+unix:///x,socket=/s,tls-hostname=h", "nbd+unix:///x,socket=/s"),
        ] {
            assert_eq!(placement(one), placement(other), "{one} and {other}");
        }
    }
}
