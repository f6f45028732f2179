//! Hosts, addresses, identifiers and paths, wherever they stand.

use super::aliases::{AliasKind, Aliases};
use core::net::{IpAddr, SocketAddr};

/// An IP address, with or without a port; those of the loopback stay.
pub(super) fn address(text: &str, aliases: &mut Aliases) -> Option<String> {
    let here = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
    if let Ok(ip) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        let alias = if here(ip) { ip.to_string() } else { aliases.of_address(ip) };
        return Some(if text.starts_with('[') { format!("[{alias}]") } else { alias });
    }
    let socket = text.parse::<SocketAddr>().ok()?;
    let (ip, port) = (socket.ip(), socket.port());
    let alias = if here(ip) { ip.to_string() } else { aliases.of_address(ip) };
    Some(if ip.is_ipv6() { format!("[{alias}]:{port}") } else { format!("{alias}:{port}") })
}

/// The name of a host, with or without a port.
pub(super) fn host(text: &str, aliases: &mut Aliases) -> String {
    if text.is_empty() {
        return String::new();
    }
    if let Some(address) = address(text, aliases) {
        return address;
    }
    let (name, port) = port_of(text).unwrap_or((text, ""));
    match name {
        // The latter is in examples of weft.
        "localhost" | "HOST" => text.to_owned(),
        name => format!("{}{port}", aliases.of(AliasKind::Host, "host-", name)),
    }
}

/// A name and `:PORT`. More colons make something else of it.
pub(super) fn port_of(text: &str) -> Option<(&str, &str)> {
    let (name, port) = text.split_at_checked(text.rfind(':')?)?;
    (!name.contains(':') && port[1..].parse::<u16>().is_ok()).then_some((name, port))
}

/// Returns whether it begins as an NQN, an IQN or the like.
pub(super) fn is_identifier(text: &str) -> bool {
    ["nqn.", "iqn.", "eui.", "naa.", "uuid:"].iter().any(|start| text.starts_with(start))
}

/// An NQN or an IQN.
pub(super) fn identifier(text: &str, aliases: &mut Aliases) -> String {
    match text {
        // That of discovery is the same everywhere.
        "nqn.2014-08.org.nvmexpress.discovery" => text.to_owned(),
        iqn if iqn.starts_with("iqn.") => {
            aliases.of(AliasKind::Identifier, "iqn.2014-08.org.example:name-", iqn)
        }
        other => aliases.of(AliasKind::Identifier, "nqn.2014-08.org.example:name-", other),
    }
}

/// A path; devices that the kernel numbers stay.
pub(super) fn path(text: &str, aliases: &mut Aliases) -> String {
    let device = text.strip_prefix("/dev/").unwrap_or_default();
    let is_numbered = |start: &str| {
        device.strip_prefix(start).is_some_and(|rest| {
            !rest.is_empty() && rest.len() <= 4 && rest.bytes().all(|it| it.is_ascii_alphanumeric())
        })
    };
    if ["sd", "vd", "nvme", "nbd", "md", "loop", "ublkb"].into_iter().any(is_numbered) {
        return text.to_owned();
    }
    aliases.of(AliasKind::Path, "/path-", text)
}
