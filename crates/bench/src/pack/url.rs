//! URLs of devices.

use super::aliases::{AliasKind, Aliases};
use super::known::{Known, is_number};
use super::parts::{host, identifier, path};

/// Schemes of the URLs of devices. Those with an authority have `//` behind the colon.
const SCHEMES: [&str; 22] = [
    "ram",
    "null",
    "file",
    "readonly",
    "delay",
    "error",
    "limit",
    "stats",
    "stripe",
    "mirror",
    "fio",
    "rbd",
    "nvme+tcp",
    "nvme+tls",
    "nvme+rdma",
    "iscsi",
    "nbd",
    "nbds",
    "nbd+unix",
    "vhost-user",
    "tcp",
    "https",
];

/// Returns whether a text begins as a URL.
pub(super) fn begins(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, _)| SCHEMES.contains(&scheme))
}

/// A URL, or several with commas between them, without hosts, names and secrets.
pub(super) fn scrub(text: &str, known: &Known, aliases: &mut Aliases) -> String {
    let pieces = text.split(',').map(|piece| one(piece, known, aliases));
    pieces.collect::<Vec<_>>().join(",")
}

fn one(piece: &str, known: &Known, aliases: &mut Aliases) -> String {
    let (mut out, mut rest) = (String::new(), piece);
    while begins(rest) {
        let (scheme, behind) = rest.split_at(rest.find(':').map_or(0, |at| at + 1));
        out += scheme;
        if let Some(network) = behind.strip_prefix("//") {
            return format!("{out}//{}", behind_scheme(network, known, aliases));
        }
        rest = behind;
    }
    match rest.split_once('=') {
        _ if rest.contains("://") => {
            aliases.removed(AliasKind::Name);
            out += "removed";
        }
        Some((name, value)) if name.bytes().all(|letter| letter.is_ascii_lowercase()) => {
            out += &format!("{name}={}", leaf(value, known, aliases));
        }
        _ => out += &leaf(rest, known, aliases),
    }
    out
}

/// A size, a path or a name.
fn leaf(text: &str, known: &Known, aliases: &mut Aliases) -> String {
    match text {
        text if text.is_empty() || is_number(text) => text.to_owned(),
        text if text.contains(['/', '\\', '.']) => path(text, aliases),
        text => name(text, known, aliases),
    }
}

/// A name that is not known.
fn name(text: &str, known: &Known, aliases: &mut Aliases) -> String {
    if known.lane(text) { text.to_owned() } else { aliases.of(AliasKind::Name, "name-", text) }
}

/// `HOST/NAME?QUERY`.
fn behind_scheme(rest: &str, known: &Known, aliases: &mut Aliases) -> String {
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(a, b)| (a, Some(b)));
    let mut parts = rest.split('/');
    let authority = parts.next().unwrap_or_default();
    let at = match authority.rsplit_once('@') {
        Some((_, at)) => {
            aliases.removed(AliasKind::Secret);
            at
        }
        None => authority,
    };
    let mut out = host(at, aliases);
    for part in parts {
        out.push('/');
        out += &match part {
            part if is_number(part) => part.to_owned(),
            part if part.contains('.') || part.contains(':') => identifier(part, aliases),
            "" => String::new(),
            part => name(part, known, aliases),
        };
    }
    if query.is_some() {
        aliases.removed(AliasKind::Secret);
    }
    out
}
