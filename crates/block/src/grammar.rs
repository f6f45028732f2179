//! Where a URL of a source ends and its options begin, and where the sources of a list begin.
//!
//! A URL is a row of *pieces* with commas between them. What a piece is, it shows by its beginning alone:
//!
//! | A piece that begins with | is |
//! |---|---|
//! | a scheme and a colon (`file:`, `nvme+tcp:`), `/`, `./`, `../`, `\`, `C:\` | the beginning of a **source** |
//! | lower-case letters, `-` or `_`, then `=` | an **option** |
//! | anything else | more of what stands before it |
//!
//! * A source is its main part, then its options: `file:/srv/disk.img,size=1GiB,block=4096`. Only what looks like an option at the very end
//!   counts as one. A main part that ends like an option is followed by one more comma: `file:/srv/odd,size=1,`.
//! * A filter is its options, then one source: `error:rate=0.01,seed=7,file:/srv/disk.img,size=1GiB`.
//! * A list is its own main part and options, then sources: `SCHEME:64KiB,file:/a,size=1GiB,file:/b,size=1GiB,error:rate=0.1,ram:1GiB`.
//!   Each option belongs to the source before it, or to the list when there is none before it. A filter in a list takes the one source
//!   behind it.
//!
//! So a list of one level has one reading only, and consists of characters that `sh` and `bash` leave alone. A comma with the beginning of
//! a source behind it (a directory whose name ends with a comma) cannot stand in a list, nor can another list: both are given
//! a name in a configuration file.

use crate::error::Error;
use crate::limits::{FILTER_DEPTH, LIST_SOURCES};
use crate::refusal::Refusal;

/// Schemes of filters: each stands on one more source.
const FILTERS: &[&str] = &["delay", "error", "ro"];

/// The parts of a list, each as it stands in the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<'a> {
    /// The list's own main part and options: what stands before the first source.
    pub head: &'a str,
    /// The URLs of the sources with their options; at least one, at most [`LIST_SOURCES`].
    pub sources: Vec<&'a str>,
}

/// Cuts what follows the scheme of a list into its parts. `lists` are the schemes of lists, which may not stand in one another.
///
/// # Errors
/// What is wrong, as a [`Refusal`].
pub fn list<'a>(rest: &'a str, lists: &[&str]) -> Result<List<'a>, Error> {
    let mut starts = Vec::new();
    let mut at = 0;
    // Whether the last source is a filter whose own source is still to come.
    let mut open = false;
    for piece in rest.split(',') {
        if is_source(piece) {
            if !open {
                if starts.len() == LIST_SOURCES {
                    return Err(Error::refused(rest, Refusal::TooManySources));
                }
                starts.push(at);
            }
            open = ends_in_filter(piece, lists)?;
        }
        at += piece.len() + 1;
    }
    if open {
        let filter = &rest[starts.last().copied().unwrap_or(0)..];
        return Err(Error::refused(filter, Refusal::FilterWithoutSource));
    }
    let Some(&first) = starts.first() else {
        return Err(Error::refused(rest, Refusal::NoSources));
    };
    let ends = starts.iter().skip(1).map(|next| next - 1).chain([rest.len()]);
    let sources = starts.iter().zip(ends).map(|(&start, end)| &rest[start..end]).collect();
    Ok(List { head: rest[..first].strip_suffix(',').unwrap_or_default(), sources })
}

/// Whether the beginning of a source leaves a filter without one. A filter without options has its source in the same piece.
fn ends_in_filter(piece: &str, lists: &[&str]) -> Result<bool, Error> {
    let mut rest = piece;
    for _ in 0..=FILTER_DEPTH {
        let (Some(scheme), behind) = scheme(rest) else { return Ok(false) };
        if lists.contains(&scheme) {
            return Err(Error::refused(piece, Refusal::ListInList));
        }
        if !FILTERS.contains(&scheme) {
            return Ok(false);
        }
        if !is_source(behind) {
            return Ok(true);
        }
        rest = behind;
    }
    Err(Error::refused(piece, Refusal::TooManyFilters))
}

/// Cuts `main[,name=value]…` into the main part and the options, the last one first.
pub fn options(source: &str) -> (&str, Vec<(&str, &str)>) {
    let mut main = source;
    let mut options = Vec::new();
    while let Some((before, last)) = main.rsplit_once(',') {
        match option(last) {
            Some(pair) => options.push(pair),
            None if last.is_empty() => {
                main = before;
                break;
            }
            None => break,
        }
        main = before;
    }
    (main, options)
}

/// Name and value of a piece that is an option.
pub(crate) fn option(piece: &str) -> Option<(&str, &str)> {
    let (name, value) = piece.split_once('=')?;
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'_' | b'-'));
    is_name.then_some((name, value))
}

/// Whether a piece begins a source.
fn is_source(piece: &str) -> bool {
    scheme(piece).0.is_some() || is_path(piece)
}

/// Whether this is meant as the path of a file: it starts at a root, a drive or a directory.
pub fn is_path(url: &str) -> bool {
    let drive = url.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) && url[1..].starts_with(':');
    drive || ["/", "./", "../", "\\", ".\\", "..\\"].iter().any(|start| url.starts_with(start))
}

/// Whether this begins with a scheme.
pub fn has_scheme(url: &str) -> bool {
    scheme(url).0.is_some()
}

/// The URL of what the filters of `url` stand on, all of them; `url` itself without any.
pub fn source(url: &str) -> &str {
    let mut source = url;
    while let (Some(kind), mut rest) = scheme(source)
        && FILTERS.contains(&kind)
    {
        while let Some((first, after)) = rest.split_once(',')
            && option(first).is_some()
        {
            rest = after;
        }
        source = rest;
    }
    source
}

/// Scheme and the rest. A scheme has two characters at least, so that `C:\disk.img` is a path.
pub(crate) fn scheme(url: &str) -> (Option<&str>, &str) {
    let is_scheme = |s: &str| {
        s.len() > 1 && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.'))
    };
    match url.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme), rest),
        _ => (None, url),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTS: &[&str] = &["stripe", "mirror"];

    fn cut(rest: &str) -> (&str, Vec<&str>) {
        let List { head, sources } = list(rest, LISTS).unwrap();
        (head, sources)
    }

    fn wrong(rest: &str) -> Refusal {
        list(rest, LISTS).unwrap_err().refusal().cloned().unwrap()
    }

    #[test]
    fn options_belong_to_the_source_before_them() {
        let sources = ["file:/a,size=1GiB,block=4096", "/b,c", "nvme+tcp://host/nqn.2014-08.org.example:x/1"];
        assert_eq!(cut(&format!("64KiB,sync=on,{}", sources.join(","))), ("64KiB,sync=on", sources.to_vec()));
        assert_eq!(cut(&sources.join(",")), ("", sources.to_vec()));
        assert_eq!(cut("file:/odd,size=1,,file:/b,"), ("", vec!["file:/odd,size=1,", "file:/b,"]));
        assert_eq!(options("/odd,size=1,,block=512"), ("/odd,size=1", vec![("block", "512")]));
        let sources = ["nbd+unix:///x,socket=/run/a.sock", "nbds://h/x?tls-certificates=/etc/pki&tls-hostname=b", "C:\\x"];
        assert_eq!(cut(&sources.join(",")), ("", sources.to_vec()));
    }

    #[test]
    fn a_filter_takes_one_source() {
        let sources = [
            "error:rate=0.1,seed=2,error:rate=1,file:/a,size=1GiB",
            "ram:1MiB",
            "error:error:rate=1,ram:1MiB",
            "ro:ram:1MiB",
            "ro:error:rate=1,/a,size=1GiB",
        ];
        assert_eq!(cut(&sources.join(",")), ("", sources.to_vec()));
        assert_eq!(cut("error:ram:1MiB,ram:2MiB"), ("", vec!["error:ram:1MiB", "ram:2MiB"]));
    }

    #[test]
    fn what_filters_stand_on_is_found() {
        for url in ["file:/a,size=1GiB", "./a=b", "ram:1MiB", "nvme+tcp://h/nqn.2014-08.org.example:x,y=1"] {
            for filters in ["", "delay:", "error:rate=0.1,seed=2,", "delay:read=1us,error:rate=1,"] {
                assert_eq!(source(&format!("{filters}{url}")), url);
            }
        }
    }

    #[test]
    fn mistakes_are_told_with_a_way_out() {
        assert_eq!(wrong(""), Refusal::NoSources);
        assert_eq!(wrong("64KiB,size=1"), Refusal::NoSources);
        assert_eq!(wrong("ram:1MiB,error:rate=1"), Refusal::FilterWithoutSource);
        assert_eq!(wrong("ram:1MiB,mirror:ram:1MiB,ram:1MiB"), Refusal::ListInList);
        assert_eq!(wrong("ram:1MiB,error:mirror:ram:1MiB"), Refusal::ListInList);
        assert_eq!(wrong(&"error:".repeat(1000)), Refusal::TooManyFilters);
        let many = vec!["ram:1MiB"; LIST_SOURCES];
        assert_eq!(cut(&many.join(",")).1.len(), LIST_SOURCES);
        assert_eq!(wrong(&vec!["ram:1MiB"; LIST_SOURCES + 1].join(",")), Refusal::TooManySources);
    }

    /// Lists of three sources with up to two options each: cut, they are what they were put together of.
    #[test]
    fn a_list_has_one_reading() {
        const MAINS: [&str; 9] = [
            "ram:1GiB",
            "/dev/sdb",
            "file:/a,b",
            "./a=b",
            "file:/odd,size=1,",
            "nbd://h/x",
            "nvme+tcp://[::1]:4420/nqn.2014-08.org.example:x,y/2",
            "iscsi://user@h:3260/iqn.2014-08.org.example:x/0",
            "error:rate=0.5,ram:1GiB",
        ];
        const OPTIONS: [&str; 3] = ["", ",block=4096", ",uuid=a-b,tls-certificates=/etc/pki"];
        let sources: Vec<_> = MAINS.iter().flat_map(|main| OPTIONS.map(|options| format!("{main}{options}"))).collect();
        for a in &sources {
            assert_eq!(cut(a), ("", vec![a.as_str()]));
            for b in &sources {
                for c in MAINS {
                    let text = format!("64KiB,{a},{b},{c}");
                    assert_eq!(cut(&text), ("64KiB", vec![a.as_str(), b, c]), "{text}");
                }
            }
        }
    }

    /// POSIX Shell Command Language §2.2: what has to be quoted, always or in places.
    #[test]
    fn nothing_in_a_list_needs_quotes() {
        let text = "stripe:64KiB,file:/a,size=1GiB,nbd+unix:///x,socket=/run/a.sock,error:rate=0.1,nvme+tcp://h:4420/nqn.2014-08.org.example:x/1";
        assert!(text.chars().all(|c| !"|&;<>()$`\\\"' \t\n*?[]#~{}!^".contains(c)));
    }
}
