//! Splits the URL of a source into its parts: main part, options, and the sources of a list.
//!
//! A URL is a list of *pieces* separated by commas. The beginning of a piece determines its kind:
//!
//! | A piece that begins with | is |
//! |---|---|
//! | a scheme and a colon (`file:`, `nvme+tcp:`), `/`, `./`, `../`, `\`, `C:\` | the beginning of a **source** |
//! | lower-case letters, `-` or `_`, followed by `=` | an **option** |
//! | anything else | a continuation of the piece before it |
//!
//! * A source is its main part followed by its options: `file:/srv/disk.img,size=1GiB,block=4096`.
//!   Only pieces at the very end that look like options are options. A main part that ends like an
//!   option is followed by one more comma: `file:/srv/odd,size=1,`.
//! * A filter is its options followed by one source:
//!   `error:rate=0.01,seed=7,file:/srv/disk.img,size=1GiB`.
//! * A list is its own main part and options followed by sources:
//!   `SCHEME:64KiB,file:/a,size=1GiB,file:/b,size=1GiB,error:rate=0.1,ram:1GiB`. Each option
//!   belongs to the source before it, or to the list if there is none. A filter in a list applies
//!   to the one source after it.
//!
//! So a list of one level is unambiguous, and consists of characters that need no quoting in `sh`
//! and `bash`. A list cannot contain another list, or a path with a comma followed by the beginning
//! of a source (a directory whose name ends with a comma): give these a name in a configuration
//! file.

use crate::limits::{FILTER_DEPTH, LIST_SOURCES};
use crate::outcome::error::Error;
use crate::outcome::refusal::Refusal;

/// Schemes of filters, which are followed by another source.
const FILTERS: &[&str] = &["delay", "error", "limit", "readonly", "stats"];

/// Schemes of lists, which are followed by several sources.
pub const LISTS: &[&str] = &["mirror", "stripe"];

/// The parts of a list, as written in the URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<'a> {
    /// The list's own main part and options, before the first source.
    pub head: &'a str,
    /// The URLs of the sources with their options; at least one, at most [`LIST_SOURCES`].
    pub sources: Vec<&'a str>,
}

/// Splits the part of a list after its scheme. `lists` are the schemes of lists, which cannot be
/// nested.
///
/// # Errors
/// The error in the list, as a [`Refusal`].
pub fn list<'a>(rest: &'a str, lists: &[&str]) -> Result<List<'a>, Error> {
    let mut starts = Vec::new();
    let mut at = 0;
    // Whether the last source is a filter whose inner source has not followed yet.
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

/// Returns whether the beginning of a source is a filter that still lacks its inner source. A
/// filter without options has it in the same piece.
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

/// Splits `main[,name=value]…` into the main part and the options, the last one first.
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

/// A main part, such as a path, as it stands in a URL, in front of options or of nothing: one that
/// ends like an option is followed by a comma. What makes a URL of a path must call this.
pub fn closed(main: &str) -> String {
    let is_plain = options(main).0 == main;
    format!("{main}{}", if is_plain { "" } else { "," })
}

/// Name and value, if the piece is an option.
pub(crate) fn option(piece: &str) -> Option<(&str, &str)> {
    let (name, value) = piece.split_once('=')?;
    let is_name = !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'_' | b'-'));
    is_name.then_some((name, value))
}

/// Returns whether a piece begins a source.
fn is_source(piece: &str) -> bool {
    scheme(piece).0.is_some() || is_path(piece)
}

/// Returns whether this is the path of a file: it begins with a root, a drive or a directory.
pub fn is_path(url: &str) -> bool {
    let drive =
        url.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) && url[1..].starts_with(':');
    drive || ["/", "./", "../", "\\", ".\\", "..\\"].iter().any(|start| url.starts_with(start))
}

/// Returns whether this begins with a scheme.
pub fn has_scheme(url: &str) -> bool {
    scheme(url).0.is_some()
}

/// A source below the filters and lists of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source<'a> {
    /// Its URL, a part of the whole one.
    pub url: &'a str,
    /// The schemes of the filters and lists above it, the outermost first.
    pub above: Vec<&'a str>,
}

/// All sources of a URL: itself, if it is neither a filter nor a list. A malformed list counts as a
/// source.
pub fn sources(url: &str) -> Vec<Source<'_>> {
    let (rest, mut above) = without_filters(url);
    if let (Some(kind), behind) = scheme(rest)
        && LISTS.contains(&kind)
        && let Ok(list) = list(behind, LISTS)
    {
        above.push(kind);
        let below = list.sources.into_iter().flat_map(sources);
        return below
            .map(|source| Source { above: [&above[..], &source.above].concat(), ..source })
            .collect();
    }
    vec![Source { url: rest, above }]
}

/// Returns whether the UUID of a device is drawn each time that it is opened: that of a RAM disk,
/// and of a stripe with one, unless the URL gives it.
pub fn draws_uuid(url: &str) -> bool {
    let is_uuid = |(name, _): &(&str, &str)| *name == "uuid";
    let (rest, _) = without_filters(url);
    match scheme(rest) {
        (Some("ram"), _) => !options(rest).1.iter().any(is_uuid),
        (Some("stripe"), behind) => list(behind, LISTS).is_ok_and(|list| {
            !list_head(list.head).1.iter().any(is_uuid)
                && list.sources.iter().any(|member| draws_uuid(member))
        }),
        _ => false,
    }
}

/// Returns the text behind the filters in front of a URL, and their schemes.
pub(crate) fn without_filters(url: &str) -> (&str, Vec<&str>) {
    let (mut rest, mut filters) = (url, Vec::new());
    while let (Some(kind), mut behind) = scheme(rest)
        && FILTERS.contains(&kind)
    {
        while let Some((first, after)) = behind.split_once(',')
            && option(first).is_some()
        {
            behind = after;
        }
        filters.push(kind);
        rest = behind;
    }
    (rest, filters)
}

/// The main part of a list, which may be missing, and its options, the last one first.
pub(crate) fn list_head(head: &str) -> (&str, Vec<(&str, &str)>) {
    let (main, mut options) = options(head);
    match option(main) {
        Some(first) => {
            options.push(first);
            ("", options)
        }
        None => (main, options),
    }
}

/// `url`, with `option` appended to each source that it `suits`.
pub fn with_option(url: &str, option: &str, suits: impl Fn(&str) -> bool) -> String {
    let mut with = String::with_capacity(url.len() + option.len());
    let mut rest = url;
    for source in sources(url).into_iter().filter(|source| suits(source.url)) {
        // Sources are parts of the URL, in order.
        let end = source.url.as_ptr() as usize + source.url.len() - rest.as_ptr() as usize;
        with.extend([&rest[..end], ",", option]);
        rest = &rest[end..];
    }
    with + rest
}

/// The path, if this is the URL of a file or disk of this machine; without options.
pub fn path(source: &str) -> Option<&str> {
    let (main, _) = options(source);
    main.strip_prefix("file:").or(is_path(main).then_some(main))
}

/// Returns whether this is the URL of memory of this process, which ends with it.
pub fn is_memory(source: &str) -> bool {
    ["ram:", "null:"].iter().any(|scheme| source.starts_with(scheme))
}

/// The scheme and the rest. A scheme has at least two characters, so that `C:\disk.img` is a path.
pub(crate) fn scheme(url: &str) -> (Option<&str>, &str) {
    let is_scheme = |s: &str| {
        s.len() > 1
            && s.bytes().all(|b| {
                b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.')
            })
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
    fn a_uuid_is_drawn_for_memory_alone() {
        let uuid = "uuid=11111111-2222-3333-4444-555555555555";
        for url in ["ram:1MiB", "readonly:ram:1MiB", "stats:every=1s,stripe:64KiB,/a,ram:1MiB"] {
            assert!(draws_uuid(url), "{url}");
        }
        for url in [
            "/a",
            "file:/ram:",
            "null:1MiB",
            "mirror:ram:1MiB,ram:1MiB",
            "nvme+tcp://h/nqn.2014-08.org.example:x/1",
            &format!("ram:1MiB,volatile=on,{uuid}"),
            &format!("stripe:64KiB,{uuid},ram:1MiB,ram:1MiB"),
        ] {
            assert!(!draws_uuid(url), "{url}");
        }
    }

    #[test]
    fn a_path_is_the_same_path_in_a_url() {
        for path in [
            "/srv/a",
            "/srv/a,b",
            "/srv/a,b=c",
            "/srv/a,size=1,block=4096",
            "/srv/a,b=c,d",
            "/srv/a,",
            "/srv/a,,",
            "/srv/a,b=",
            "./a,b=c",
            "/srv/a:b,c=d",
        ] {
            for prefix in ["", "file:"] {
                let url = format!("{prefix}{}", closed(path));
                assert_eq!((super::path(&url), options(&url).1), (Some(path), Vec::new()), "{url}");
                let with = format!("{url},size=1GiB");
                let given = vec![("size", "1GiB")];
                assert_eq!((super::path(&with), options(&with).1), (Some(path), given), "{with}");
            }
        }
    }

    #[test]
    fn options_belong_to_the_source_before_them() {
        let sources =
            ["file:/a,size=1GiB,block=4096", "/b,c", "nvme+tcp://host/nqn.2014-08.org.example:x/1"];
        assert_eq!(
            cut(&format!("64KiB,sync=on,{}", sources.join(","))),
            ("64KiB,sync=on", sources.to_vec())
        );
        assert_eq!(cut(&sources.join(",")), ("", sources.to_vec()));
        assert_eq!(cut("file:/odd,size=1,,file:/b,"), ("", vec!["file:/odd,size=1,", "file:/b,"]));
        assert_eq!(options("/odd,size=1,,block=512"), ("/odd,size=1", vec![("block", "512")]));
        let sources = [
            "nbd+unix:///x,socket=/run/a.sock",
            "nbds://h/x?tls-certificates=/etc/pki&tls-hostname=b",
            "C:\\x",
        ];
        assert_eq!(cut(&sources.join(",")), ("", sources.to_vec()));
    }

    #[test]
    fn a_filter_takes_one_source() {
        let sources = [
            "error:rate=0.1,seed=2,error:rate=1,file:/a,size=1GiB",
            "ram:1MiB",
            "error:error:rate=1,ram:1MiB",
            "readonly:ram:1MiB",
            "readonly:error:rate=1,/a,size=1GiB",
        ];
        assert_eq!(cut(&sources.join(",")), ("", sources.to_vec()));
        assert_eq!(cut("error:ram:1MiB,ram:2MiB"), ("", vec!["error:ram:1MiB", "ram:2MiB"]));
    }

    #[test]
    fn what_filters_and_lists_stand_on_is_found() {
        let found = |url: &str| {
            sources(url).into_iter().map(|source| source.url.to_owned()).collect::<Vec<_>>()
        };
        for url in
            ["file:/a,size=1GiB", "./a=b", "ram:1MiB", "nvme+tcp://h/nqn.2014-08.org.example:x,y=1"]
        {
            for filters in ["", "delay:", "error:rate=0.1,seed=2,", "delay:read=1us,error:rate=1,"]
            {
                assert_eq!(found(&format!("{filters}{url}")), [url]);
                let list = format!("{filters}stripe:64KiB,uuid=1,{url},{filters}ram:1GiB");
                assert_eq!(found(&list), [url, "ram:1GiB"], "{list}");
            }
        }
        let all = sources("delay:stripe:readonly:/a,size=1,limit:iops=1,nbd://h/x");
        assert_eq!(all[0], Source { url: "/a,size=1", above: vec!["delay", "stripe", "readonly"] });
        assert_eq!(all[1], Source { url: "nbd://h/x", above: vec!["delay", "stripe", "limit"] });
        assert_eq!(found("stripe:64KiB"), ["stripe:64KiB"]);
    }

    #[test]
    fn options_are_added_to_each_source_that_they_suit() {
        let with = |url| with_option(url, "lock=off", |source| path(source).is_some());
        assert_eq!(with("/a,size=1"), "/a,size=1,lock=off");
        assert_eq!(with("delay:read=1us,ram:1MiB"), "delay:read=1us,ram:1MiB");
        assert_eq!(
            with("stripe:4k,file:/a,ram:1MiB,readonly:./b"),
            "stripe:4k,file:/a,lock=off,ram:1MiB,readonly:./b,lock=off"
        );
        assert_eq!(with("file:/odd,size=1,"), "file:/odd,size=1,,lock=off");
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

    /// Lists of three sources with up to two options each: cut, they are what they were put
    /// together of.
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
        let sources: Vec<_> = MAINS
            .iter()
            .flat_map(|main| OPTIONS.map(|options| format!("{main}{options}")))
            .collect();
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
