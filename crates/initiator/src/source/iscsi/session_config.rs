//! Configuration of a session: its name, its digests, and the secrets by which the two ends
//! authenticate.

use super::options::IscsiOptions;
use super::session_names::SessionNames;
use crate::source::ConnectOptions;
use weft_block::{Error, ErrorKind};
use weft_connection::identity::Identities;
use weft_connection::url::{DigestWish, IscsiUrl};
use weft_proto::iscsi::chap::{Credentials, SECRET_BYTES_MIN};
use weft_proto::iscsi::digest::Digests;
use weft_proto::iscsi::initiator::{InitiatorConfig, TargetProof};
use weft_proto::iscsi::pdu::Isid;

/// Length of the challenge by which a target proves itself.
const CHALLENGE_BYTES: usize = 32;

/// The configuration of the `n`th session of a device, or of a discovery session where there are no
/// ISIDs. Each living session has another ISID.
pub(super) fn session(
    url: &IscsiUrl,
    options: &ConnectOptions,
    isids: Option<&SessionNames>,
    n: u16,
) -> Result<InitiatorConfig, Error> {
    let iscsi = &options.iscsi;
    let identities = options.control.identities();
    let name = iscsi.initiator_name.clone().map_or_else(|| identities.initiator_name(), Ok)?;
    let isid = match isids {
        Some(isids) => isids.take(&format!("{name} {url}"), n, options.opener),
        None => Isid::random(identities.random(), n),
    };
    let (wanted, required) = digests(url, options);
    let mut config =
        InitiatorConfig::new(name, isid, url.target.clone().filter(|_| isids.is_some()))
            .with_digests(wanted, required);
    config.credentials = credentials(url, iscsi)?;
    config.target_proof = target_proof(iscsi, config.credentials.as_ref(), identities)?;
    // One more than operations, for what the device itself wants to know.
    config.commands = options.queue_size.saturating_add(1);
    config.command_timeout = options.io_timeout;
    config.ping_interval = std::time::Duration::from_millis(options.keep_alive_ms.into());
    config.ping_timeout = config.ping_interval;
    Ok(config)
}

/// Digests to ask for, and those of them without which there is to be no session: each stands for
/// itself. Options insist.
fn digests(url: &IscsiUrl, options: &ConnectOptions) -> (Digests, Digests) {
    let each = |is: fn(DigestWish) -> bool| Digests {
        header: options.hdr_digest || is(url.header_digest),
        data: options.data_digest || is(url.data_digest),
    };
    (each(|wish| wish != DigestWish::None), each(|wish| wish == DigestWish::Required))
}

fn credentials(url: &IscsiUrl, options: &IscsiOptions) -> Result<Option<Credentials>, Error> {
    let user = url.user.as_ref().or(options.user.as_ref());
    match (user, &options.secret) {
        (Some(name), Some(secret)) if secret.len() < SECRET_BYTES_MIN => {
            let text = format!(
                "the secret of the CHAP user \"{name}\" has {} bytes; at least {SECRET_BYTES_MIN} are needed",
                secret.len()
            );
            Err(Error::new(ErrorKind::Usage, text))
        }
        (Some(name), Some(secret)) => {
            Ok(Some(Credentials { name: name.clone(), secret: secret.clone() }))
        }
        (None, None) => Ok(None),
        (Some(name), None) => {
            let text = format!(
                "the secret of the CHAP user \"{name}\" is missing; name its file with --chap-secret-file, or put it into the environment \
                 variable LIBISCSI_CHAP_PASSWORD"
            );
            Err(Error::new(ErrorKind::Usage, text))
        }
        (None, Some(_)) => {
            let text = "there is a CHAP secret, but no name; write iscsi://USER@HOST/…, or give --chap-user";
            Err(Error::new(ErrorKind::Usage, text))
        }
    }
}

fn target_proof(
    options: &IscsiOptions,
    ours: Option<&Credentials>,
    identities: &Identities,
) -> Result<Option<TargetProof>, Error> {
    let Some(secret) = &options.target_secret else { return Ok(None) };
    let Some(ours) = ours else {
        let text = "mutual CHAP needs a name and a secret of our own too: iscsi://USER@HOST/… and --chap-secret-file";
        return Err(Error::new(ErrorKind::Usage, text));
    };
    if ours.secret == *secret {
        let text = "the target's CHAP secret is our own; RFC 7143 forbids that, as anybody could pass our proof on as the target's";
        return Err(Error::new(ErrorKind::Usage, text));
    }
    let challenge = identities.random::<CHALLENGE_BYTES>().to_vec();
    let credentials = Credentials {
        name: options.target_user.clone().unwrap_or_default(),
        secret: secret.clone(),
    };
    let [identifier] = identities.random();
    Ok(Some(TargetProof { credentials, identifier, challenge }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_connection::url::ISCSI_PORT;
    use weft_proto::iscsi::text::Name;

    fn with(user: &str, iscsi: IscsiOptions) -> Result<InitiatorConfig, Error> {
        let url = IscsiUrl::parse(
            &format!("iscsi://{user}host/iqn.2026-01.example.weft:disk/0"),
            ISCSI_PORT,
        )
        .unwrap();
        let name = Name::new("iqn.2026-01.example.weft:initiator").unwrap();
        let iscsi = IscsiOptions { initiator_name: Some(name), ..iscsi };
        let options = ConnectOptions { iscsi, ..ConnectOptions::default() };
        session(&url, &options, Some(&SessionNames::new(&options.control)), 0)
    }

    #[test]
    fn names_and_secrets_belong_together() {
        let secret = || Some("a long enough secret".into());
        let config =
            with("me@", IscsiOptions { secret: secret(), ..IscsiOptions::default() }).unwrap();
        assert_eq!(config.credentials.unwrap().name, "me");
        let other = IscsiOptions {
            user: Some("other".into()),
            secret: secret(),
            ..IscsiOptions::default()
        };
        assert_eq!(with("", other).unwrap().credentials.unwrap().name, "other");
        for (user, options, why) in [
            ("me@", IscsiOptions::default(), "--chap-secret-file"),
            (
                "me@",
                IscsiOptions { secret: Some("short".into()), ..IscsiOptions::default() },
                "at least 12",
            ),
            ("", IscsiOptions { secret: secret(), ..IscsiOptions::default() }, "no name"),
            (
                "",
                IscsiOptions { target_secret: secret(), ..IscsiOptions::default() },
                "mutual CHAP",
            ),
            (
                "me@",
                IscsiOptions {
                    secret: secret(),
                    target_secret: secret(),
                    ..IscsiOptions::default()
                },
                "is our own",
            ),
        ] {
            let error = with(user, options).unwrap_err();
            assert!(error.to_string().contains(why) && error.kind() == ErrorKind::Usage, "{error}");
        }
    }

    #[test]
    fn each_digest_is_insisted_on_for_itself() {
        let name = || Name::new("iqn.2026-01.example.weft:initiator").unwrap();
        let iscsi = || IscsiOptions { initiator_name: Some(name()), ..IscsiOptions::default() };
        let offer = |parameters: &str, hdr_digest| {
            let url = IscsiUrl::parse(
                &format!("iscsi://host/iqn.2026-01.example.weft:disk/0{parameters}"),
                ISCSI_PORT,
            )
            .unwrap();
            let options =
                ConnectOptions { hdr_digest, iscsi: iscsi(), ..ConnectOptions::default() };
            let offer = session(&url, &options, None, 0).unwrap().offer;
            (offer.digests, offer.require_digests)
        };
        let header = Digests { header: true, data: false };
        assert_eq!(offer("", false), (Digests::NONE, Digests::NONE));
        assert_eq!(
            offer("?header_digest=crc32c&data_digest=crc32c,none", false),
            (Digests::BOTH, header)
        );
        assert_eq!(offer("?header_digest=crc32c,none", true), (header, header));
    }

    #[test]
    fn challenges_are_not_used_again() {
        let options = || IscsiOptions {
            secret: Some("a long enough secret".into()),
            target_secret: Some("another long secret".into()),
            ..IscsiOptions::default()
        };
        let proof = || with("me@", options()).unwrap().target_proof.unwrap().challenge;
        assert_ne!(proof(), proof());
    }
}
