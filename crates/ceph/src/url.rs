//! `rbd:POOL[/NAMESPACE]/IMAGE[@SNAPSHOT][,conf=FILE][,id=USER][,keyring=FILE]`: the names that the
//! tools of Ceph use. There is no key in a URL: it is in the keyring, and that in a file.

use std::fmt;
use std::path::PathBuf;
use weft_block::{Error, ErrorKind, grammar};

/// Prefix of URLs of images.
pub const RBD: &str = "rbd:";

/// An image, or a snapshot of one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RbdUrl {
    /// Name of the pool.
    pub pool: String,
    /// Name of the namespace in the pool; empty for the default one.
    pub namespace: String,
    /// Name of the image.
    pub image: String,
    /// Name of the snapshot.
    pub snapshot: Option<String>,
    /// Whom to ask.
    pub access: CephAccess,
    /// An image that is written to is refused without the feature `exclusive-lock`, by which no
    /// write of one gateway comes behind a later one of another. Not a part of the text.
    pub needs_lock: bool,
}

/// The cluster, and as whom to use it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CephAccess {
    /// The configuration file; without one, where the tools of Ceph look for it (`CEPH_CONF`,
    /// `/etc/ceph/ceph.conf`, …).
    pub conf: Option<PathBuf>,
    /// Name of the user without `client.`; `admin` without one.
    pub id: Option<String>,
    /// File with the user's key; without one, that of the configuration.
    pub keyring: Option<PathBuf>,
}

impl RbdUrl {
    /// Reads the URL.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let rest = url.strip_prefix(RBD).unwrap_or(url);
        let (main, options) = grammar::options(rest);
        let wrong = |what: &str| Error::new(ErrorKind::Usage, format!("{RBD}{main}: {what}"));
        let (image, snapshot) = match main.split_once('@') {
            Some((image, snapshot)) => (image, Some(snapshot)),
            None => (main, None),
        };
        let parts: Vec<&str> = image.split('/').collect();
        let (pool, namespace, name) = match parts[..] {
            [pool, image] => (pool, "", image),
            [pool, namespace, image] if !namespace.is_empty() => (pool, namespace, image),
            _ => {
                return Err(wrong(
                    "an image is named rbd:POOL/IMAGE or rbd:POOL/NAMESPACE/IMAGE, with @SNAPSHOT for a snapshot of it",
                ));
            }
        };
        if [pool, name, snapshot.unwrap_or("-")]
            .iter()
            .any(|part| part.is_empty() || part.contains(['@', '\0']))
        {
            return Err(wrong(
                "a pool, an image and a snapshot each have a name; write rbd:POOL/IMAGE or rbd:POOL/IMAGE@SNAPSHOT",
            ));
        }
        let access = CephAccess::parse(options).map_err(|what| wrong(&what))?;
        Ok(Self {
            pool: pool.into(),
            namespace: namespace.into(),
            image: name.into(),
            snapshot: snapshot.map(Into::into),
            access,
            needs_lock: false,
        })
    }
}

impl CephAccess {
    fn parse(options: Vec<(&str, &str)>) -> Result<Self, String> {
        let mut access = Self::default();
        // The last one comes first.
        for (name, value) in options.into_iter().rev() {
            let twice = match name {
                "conf" => access.conf.replace(value.into()).is_some(),
                "id" => access.id.replace(value.into()).is_some(),
                "keyring" => access.keyring.replace(value.into()).is_some(),
                "key" | "keyfile" | "secret" => {
                    return Err("a key does not belong into a URL; name the file that holds it, keyring=FILE".into());
                }
                _ => return Err(format!("there is no option {name}=; use conf=, id= or keyring=")),
            };
            if twice {
                return Err(format!("{name}= is given twice; use it once"));
            }
            if value.is_empty() || value.contains('\0') {
                return Err(format!("{name}= has no value that can be used"));
            }
        }
        if access.id.as_deref().is_some_and(|id| id.starts_with("client.")) {
            return Err("id= is the user's name without \"client.\"".into());
        }
        Ok(access)
    }

    /// The user's name, as Ceph writes it.
    pub fn user(&self) -> String {
        format!("client.{}", self.id.as_deref().unwrap_or("admin"))
    }
}

impl fmt::Display for RbdUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{RBD}{}/", self.pool)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.image)?;
        if let Some(snapshot) = &self.snapshot {
            write!(f, "@{snapshot}")?;
        }
        if let Some(conf) = &self.access.conf {
            write!(f, ",conf={}", conf.display())?;
        }
        if let Some(id) = &self.access.id {
            write!(f, ",id={id}")?;
        }
        if let Some(keyring) = &self.access.keyring {
            write!(f, ",keyring={}", keyring.display())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(url: &str) -> String {
        let error = RbdUrl::parse(url).expect_err(url);
        assert_eq!(error.kind(), ErrorKind::Usage);
        error.to_string()
    }

    #[test]
    fn what_is_written_is_what_was_read() {
        for url in [
            "rbd:rbd/disk",
            "rbd:pool/tenant/disk@monday",
            "rbd:rbd/disk,conf=/etc/ceph/ceph.conf,id=user,keyring=/etc/ceph/keyring",
            "rbd:rbd/disk 1,id=a.b",
        ] {
            assert_eq!(RbdUrl::parse(url).unwrap().to_string(), url);
        }
        let url = RbdUrl::parse("rbd:pool/tenant/disk@monday,keyring=/k,id=u").unwrap();
        let parts = (
            url.pool.as_str(),
            url.namespace.as_str(),
            url.image.as_str(),
            url.snapshot.as_deref(),
        );
        assert_eq!(parts, ("pool", "tenant", "disk", Some("monday")));
        assert_eq!(
            url.access,
            CephAccess { conf: None, id: Some("u".into()), keyring: Some("/k".into()) }
        );
        assert_eq!(
            (url.access.user().as_str(), CephAccess::default().user().as_str()),
            ("client.u", "client.admin")
        );
    }

    #[test]
    fn mistakes_are_told_with_a_way_out() {
        for url in [
            "rbd:",
            "rbd:disk",
            "rbd:rbd/",
            "rbd:/disk",
            "rbd:a/b/c/d",
            "rbd:a//c",
            "rbd:a/b@",
            "rbd:a/b@c@d",
        ] {
            assert!(wrong(url).contains("rbd:POOL/IMAGE"), "{url}");
        }
        assert!(wrong("rbd:a/b,key=AQBh").contains("keyring=FILE"));
        assert!(!wrong("rbd:a/b,key=AQBh").contains("AQBh"), "no key is shown");
        assert!(wrong("rbd:a/b,colour=red").contains("conf=, id= or keyring="));
        assert!(wrong("rbd:a/b,id=x,id=y").contains("twice"));
        assert!(wrong("rbd:a/b,conf=").contains("no value"));
        assert!(wrong("rbd:a/b,id=client.x").contains("without"));
    }
}
