//! Options that only iSCSI has: our name, and secrets.

use std::env;
use weft_proto::iscsi::chap::ChapSecret;
use weft_proto::iscsi::text::Name;

/// iSCSI's part of [`ConnectOptions`](crate::source::ConnectOptions).
#[derive(Clone, Debug, Default)]
pub struct IscsiOptions {
    /// Our name; `None`: the system's own name (`/etc/iscsi/initiatorname.iscsi`), or one that is
    /// made once and kept.
    pub initiator_name: Option<Name>,
    /// CHAP: our name; the URL's `USER@` takes precedence.
    pub user: Option<String>,
    /// CHAP: our secret, of at least 12 bytes.
    pub secret: Option<ChapSecret>,
    /// Mutual CHAP: the target's name; `None`: whatever it calls itself.
    pub target_user: Option<String>,
    /// Mutual CHAP: the target's secret. With it the target has to prove who it is.
    pub target_secret: Option<ChapSecret>,
}

impl IscsiOptions {
    /// Names and secrets of the environment, as libiscsi takes them: `LIBISCSI_CHAP_USERNAME`,
    /// `LIBISCSI_CHAP_PASSWORD`, `LIBISCSI_CHAP_TARGET_USERNAME`, `LIBISCSI_CHAP_TARGET_PASSWORD`.
    pub fn from_environment() -> Self {
        let text = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            initiator_name: None,
            user: text("LIBISCSI_CHAP_USERNAME"),
            secret: text("LIBISCSI_CHAP_PASSWORD").map(ChapSecret::from),
            target_user: text("LIBISCSI_CHAP_TARGET_USERNAME"),
            target_secret: text("LIBISCSI_CHAP_TARGET_PASSWORD").map(ChapSecret::from),
        }
    }
}
