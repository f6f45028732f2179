//! Replacements of removed texts.

use std::collections::BTreeMap;

/// The kind of a removed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AliasKind {
    /// The name of a host.
    Host,
    /// An IP address.
    Address,
    /// An NQN or an IQN, which may have the name of a host or a serial number.
    Identifier,
    /// A path of a file.
    Path,
    /// Credentials, or the value of an option that takes a secret.
    Secret,
    /// A fingerprint of a certificate.
    Fingerprint,
    /// A network interface, whose name may have its address.
    Interface,
    /// Another name: of a lane, a suite, an export, or a word that nobody knows.
    Name,
    /// A text that has no place among those that are kept.
    Text,
}

impl AliasKind {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Host => "host name",
            Self::Address => "address",
            Self::Identifier => "NQN or IQN",
            Self::Path => "path",
            Self::Secret => "secret",
            Self::Fingerprint => "fingerprint",
            Self::Interface => "interface",
            Self::Name => "name",
            Self::Text => "text",
        }
    }
}

/// Replacements, and how often each kind was replaced where.
#[derive(Default)]
pub(super) struct Aliases {
    by: BTreeMap<String, String>,
    numbers: BTreeMap<&'static str, usize>,
    removed: BTreeMap<(AliasKind, String), usize>,
    /// The place of the current text.
    place: String,
}

impl Aliases {
    /// Sets the place of the texts that follow.
    pub(super) fn at(&mut self, place: &str) {
        place.clone_into(&mut self.place);
    }

    /// Counts something that goes without a replacement of its own.
    pub(super) fn removed(&mut self, kind: AliasKind) {
        *self.removed.entry((kind, self.place.clone())).or_default() += 1;
    }

    /// The number of removals of each kind in each place.
    pub(super) fn into_removed(self) -> BTreeMap<(AliasKind, String), usize> {
        self.removed
    }

    /// The replacement of a text that has one already, in whatever case it is written.
    pub(super) fn known(&mut self, kind: AliasKind, text: &str) -> Option<String> {
        let alias = self.by.get(&text.to_lowercase()).cloned()?;
        self.removed(kind);
        Some(alias)
    }

    /// The replacement of a text: the same one each time.
    pub(super) fn of(&mut self, kind: AliasKind, prefix: &'static str, text: &str) -> String {
        if let Some(known) = self.known(kind, text) {
            return known;
        }
        let number = self.numbers.entry(prefix).or_default();
        *number += 1;
        let alias = format!("{prefix}{number}");
        self.by.insert(text.to_lowercase(), alias.clone());
        self.removed(kind);
        alias
    }

    /// The replacement of an address, from those for documentation (RFC 5737, RFC 3849).
    pub(super) fn of_address(&mut self, address: core::net::IpAddr) -> String {
        let prefix = match address {
            core::net::IpAddr::V4(_) if self.numbers.get("192.0.2.").copied() < Some(254) => {
                "192.0.2."
            }
            core::net::IpAddr::V4(_) => "address-",
            core::net::IpAddr::V6(_) => "2001:db8::",
        };
        self.of(AliasKind::Address, prefix, &address.to_string())
    }
}
