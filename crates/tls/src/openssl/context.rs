//! The settings of all connections of one end, and the callbacks by which the library asks for
//! keys.

use super::keylog::TrafficSecrets;
use super::library::{Library, Unavailable, library, loaded};
use super::types::{
    ALERT_UNKNOWN_PSK_IDENTITY, CLIENT_HELLO_ERROR, CLIENT_HELLO_SUCCESS, CTRL_SET_GROUPS_LIST,
    CTRL_SET_MAX_PROTO_VERSION, CTRL_SET_MIN_PROTO_VERSION, CTRL_SET_SESS_CACHE_MODE,
    EXTENSION_PSK, EvpMd, OP_NO_RENEGOTIATION, OP_NO_TICKET, Ssl, SslCtx, SslSession,
    TLS1_3_VERSION, VERIFY_PEER,
};
use crate::key::{Keys, Psk};
use crate::limits::TLS_IDENTITIES_MAX;
use core::ffi::{CStr, c_char, c_int, c_long, c_uchar, c_void};
use core::ptr::{NonNull, null, null_mut};
use std::cell::RefCell;
use std::sync::Arc;

/// Both cipher suites: the key decides which one is used.
const SUITES: &CStr = c"TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384";

/// Groups of the key exchange. None of them takes much longer than a millisecond: anybody can have
/// it done who knows the identity of a PSK.
const GROUPS: &CStr = c"X25519:P-256:P-384:P-521:ffdhe2048:ffdhe3072";

/// Bytes of an identity without a key that are kept for a message.
const SHOWN_BYTES: usize = 600;

/// What one end knows.
pub(crate) enum Secrets {
    /// A server looks keys up.
    Server(Arc<dyn Keys>),
    /// A client has one, under this identity.
    Client(Vec<u8>, Psk),
}

/// The settings of all connections of one end.
pub(crate) struct Context {
    pub(super) library: &'static Library,
    pub(super) raw: NonNull<SslCtx>,
    pub(super) secrets: Arc<Secrets>,
}

// SAFETY: the library counts references to what this points to with atomics, and locks what changes
// in it; nothing changes it here once it is made.
unsafe impl Send for Context {}

// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Loads the library where that was not done yet.
    ///
    /// # Errors
    /// Why there is no TLS here.
    pub(crate) fn new(secrets: Secrets) -> Result<Self, Unavailable> {
        let library = library()?;
        // SAFETY: the method lives for ever.
        let raw = unsafe { (library.SSL_CTX_new)((library.TLS_method)()) };
        let raw = NonNull::new(raw).ok_or(Unavailable::Refused("a context"))?;
        let context = Self { library, raw, secrets: Arc::new(secrets) };
        context.set_up()?;
        Ok(context)
    }

    fn control(&self, what: c_int, value: c_long, text: Option<&'static CStr>) -> c_long {
        let text = text.map_or(null_mut(), |text| text.as_ptr().cast_mut().cast());
        // SAFETY: the context is valid; the library reads the text, if there is one, and does not
        // keep it.
        unsafe { (self.library.SSL_CTX_ctrl)(self.raw.as_ptr(), what, value, text) }
    }

    fn set_up(&self) -> Result<(), Unavailable> {
        let (library, raw) = (self.library, self.raw.as_ptr());
        let version = c_long::from(TLS1_3_VERSION);
        let is_version = [CTRL_SET_MIN_PROTO_VERSION, CTRL_SET_MAX_PROTO_VERSION]
            .map(|end| self.control(end, version, None));
        if is_version != [1, 1] {
            return Err(Unavailable::Refused("TLS 1.3 alone"));
        }
        if self.control(CTRL_SET_GROUPS_LIST, 0, Some(GROUPS)) != 1 {
            return Err(Unavailable::Refused("the groups of the key exchange"));
        }
        self.control(CTRL_SET_SESS_CACHE_MODE, 0, None);
        let suites = match &*self.secrets {
            Secrets::Server(_) => SUITES,
            Secrets::Client(_, psk) => psk.hash.suite_name(),
        };
        // SAFETY: the context is valid and used by nobody else yet. The callbacks have the types
        // that the library calls them with, and need no argument. A missing callback of the
        // verification is allowed.
        unsafe {
            (library.SSL_CTX_set_keylog_callback)(raw, keylog);
            (library.SSL_CTX_set_options)(raw, OP_NO_TICKET | OP_NO_RENEGOTIATION);
            if (library.SSL_CTX_set_ciphersuites)(raw, suites.as_ptr()) != 1 {
                return Err(Unavailable::Refused("the cipher suites of NVMe/TCP"));
            }
            match &*self.secrets {
                Secrets::Server(_) => {
                    (library.SSL_CTX_set_num_tickets)(raw, 0);
                    (library.SSL_CTX_set_client_hello_cb)(raw, client_hello, null_mut());
                    (library.SSL_CTX_set_psk_find_session_callback)(raw, find_session);
                }
                Secrets::Client(..) => {
                    // No authority is trusted, so no certificate is good enough.
                    (library.SSL_CTX_set_verify)(raw, VERIFY_PEER, null());
                    (library.SSL_CTX_set_psk_use_session_callback)(raw, use_session);
                }
            }
        }
        Ok(())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it is valid; connections hold references of their own.
        unsafe { (self.library.SSL_CTX_free)(self.raw.as_ptr()) };
    }
}

/// What callbacks of one connection know and learn.
pub(super) struct CallbackData {
    pub(super) secrets: Arc<Secrets>,
    /// Server: the identity that was chosen, and its key.
    pub(super) chosen: RefCell<Option<(Vec<u8>, Psk)>>,
    /// Server: the first identity that was offered, when there is a key for none.
    pub(super) unknown: RefCell<Option<Vec<u8>>>,
    /// The secrets of the data.
    pub(super) traffic: RefCell<TrafficSecrets>,
}

/// What a connection's callbacks know.
///
/// # Safety
/// The library calls back with a connection that [`super::machine::SslMachine`] made, whose first
/// data is its [`CallbackData`] and lives longer.
pub(super) unsafe fn callback_data<'a>(
    library: &Library,
    ssl: *mut Ssl,
) -> Option<&'a CallbackData> {
    // SAFETY: as the caller promises.
    unsafe { (library.SSL_get_ex_data)(ssl, 0).cast::<CallbackData>().as_ref() }
}

/// Bytes of the library's, which stay during a callback.
///
/// # Safety
/// They are so many, or the pointer is null.
unsafe fn bytes<'a>(at: *const c_uchar, len: usize) -> &'a [u8] {
    if at.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { core::slice::from_raw_parts(at, len) }
}

/// A hello has come: chooses the key, and the cipher suite that goes with it. The library by itself
/// would choose the suite first, and then ignore keys that do not go with it.
unsafe extern "C" fn client_hello(ssl: *mut Ssl, alert: *mut c_int, _: *mut c_void) -> c_int {
    let Some(library) = loaded() else { return CLIENT_HELLO_ERROR };
    // SAFETY: the library calls this with a connection of ours.
    let Some(data) = (unsafe { callback_data(library, ssl) }) else { return CLIENT_HELLO_ERROR };
    let Secrets::Server(keys) = &*data.secrets else { return CLIENT_HELLO_ERROR };
    let (mut at, mut len) = (null(), 0);
    // SAFETY: the connection is valid, and so are both places for results.
    if unsafe { (library.SSL_client_hello_get0_ext)(ssl, EXTENSION_PSK, &raw mut at, &raw mut len) }
        != 1
    {
        // The library goes on, and ends the handshake for the version, or as there is no
        // certificate.
        return CLIENT_HELLO_SUCCESS;
    }
    // SAFETY: the library has so many bytes of the extension there.
    let extension = unsafe { bytes(at, len) };
    let found =
        identities(extension).find_map(|identity| keys.find(identity).map(|psk| (identity, psk)));
    let Some((identity, psk)) = found else {
        let first = identities(extension).next().unwrap_or_default();
        data.unknown.replace(Some(first[..first.len().min(SHOWN_BYTES)].to_vec()));
        // SAFETY: the library gives a place for the alert.
        unsafe { *alert = ALERT_UNKNOWN_PSK_IDENTITY };
        return CLIENT_HELLO_ERROR;
    };
    // SAFETY: the connection is valid, and the name ends with zero.
    let suited = unsafe { (library.SSL_set_ciphersuites)(ssl, psk.hash.suite_name().as_ptr()) };
    data.chosen.replace(Some((identity.to_vec(), psk)));
    if suited == 1 { CLIENT_HELLO_SUCCESS } else { CLIENT_HELLO_ERROR }
}

/// The library asks for the key of an identity.
unsafe extern "C" fn find_session(
    ssl: *mut Ssl,
    identity: *const c_uchar,
    len: usize,
    found: *mut *mut SslSession,
) -> c_int {
    let Some(library) = loaded() else { return 0 };
    // SAFETY: the library calls this with a connection of ours, with so many bytes of an identity,
    // and with a place for the session, which is its own from then on.
    unsafe {
        *found = null_mut();
        let (Some(data), identity) = (callback_data(library, ssl), bytes(identity, len)) else {
            return 0;
        };
        let chosen = data.chosen.borrow();
        let Some((_, psk)) = chosen.as_ref().filter(|(chosen, _)| chosen == identity) else {
            return 1;
        };
        *found = session(library, ssl, psk);
        c_int::from(!(*found).is_null())
    }
}

/// The library asks for the identity and the key that a client offers.
unsafe extern "C" fn use_session(
    ssl: *mut Ssl,
    _: *const EvpMd,
    identity: *mut *const c_uchar,
    len: *mut usize,
    used: *mut *mut SslSession,
) -> c_int {
    let Some(library) = loaded() else { return 0 };
    // SAFETY: the library calls this with a connection of ours and with places for three results.
    // It copies the identity at once, and the session is its own from then on. The hash function
    // that it may name is that of the only cipher suite.
    unsafe {
        let Some(data) = callback_data(library, ssl) else { return 0 };
        let Secrets::Client(name, psk) = &*data.secrets else { return 0 };
        *used = session(library, ssl, psk);
        (*identity, *len) = (name.as_ptr(), name.len());
        c_int::from(!(*used).is_null())
    }
}

/// A session that stands for a key; null: the library refuses it.
///
/// # Safety
/// The connection is valid.
unsafe fn session(library: &Library, ssl: *mut Ssl, psk: &Psk) -> *mut SslSession {
    // SAFETY: the connection is valid as the caller promises, the session until it is freed; the
    // library copies the key.
    unsafe {
        let session = (library.SSL_SESSION_new)();
        if session.is_null() {
            return session;
        }
        let cipher = (library.SSL_CIPHER_find)(ssl, psk.hash.suite().as_ptr());
        let is_made = !cipher.is_null()
            && (library.SSL_SESSION_set1_master_key)(session, psk.key.as_ptr(), psk.key.len()) == 1
            && (library.SSL_SESSION_set_cipher)(session, cipher) == 1
            && (library.SSL_SESSION_set_protocol_version)(session, TLS1_3_VERSION) == 1;
        if !is_made {
            (library.SSL_SESSION_free)(session);
            return null_mut();
        }
        session
    }
}

/// The library has a secret, and wipes its text when this has returned.
unsafe extern "C" fn keylog(ssl: *const Ssl, line: *const c_char) {
    let Some(library) = loaded() else { return };
    if line.is_null() {
        return;
    }
    // SAFETY: the library calls this with a connection of ours and a text that ends with zero and
    // stays during the call.
    let (data, line) = unsafe { (callback_data(library, ssl.cast_mut()), CStr::from_ptr(line)) };
    if let (Some(data), Ok(line)) = (data, line.to_str()) {
        data.traffic.borrow_mut().take(line);
    }
}

// The identities in a ClientHello (RFC 8446 §4.2.11).

/// The identities of a `pre_shared_key` extension, the first of them; those in front of what is
/// malformed.
pub(crate) fn identities(extension: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut list, _) = prefixed(extension).unwrap_or_default();
    core::iter::from_fn(move || {
        let (identity, rest) = prefixed(list)?;
        // Behind each is the age of the ticket that it might be.
        list = rest.get(4..)?;
        Some(identity)
    })
    .take(TLS_IDENTITIES_MAX)
}

/// What is behind a length of two bytes, and the rest.
fn prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(u16::from_be_bytes(*len).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extension(names: &[&[u8]]) -> Vec<u8> {
        let list: Vec<u8> = names
            .iter()
            .flat_map(|name| [&(name.len() as u16).to_be_bytes(), *name, &[0; 4]].concat())
            .collect();
        // A binder behind them.
        [&(list.len() as u16).to_be_bytes(), &*list, &[0, 33, 32], &[7; 32]].concat()
    }

    #[test]
    fn identities_are_found_in_their_order() {
        let bytes = extension(&[b"one", b"", b"three"]);
        assert_eq!(identities(&bytes).collect::<Vec<_>>(), [b"one".as_slice(), b"", b"three"]);
        let many = extension(&[b"x".as_slice(); 100]);
        assert_eq!(identities(&many).count(), TLS_IDENTITIES_MAX);
    }

    #[test]
    fn what_is_cut_has_no_more_identities_than_are_whole() {
        let bytes = extension(&[b"one", b"two"]);
        // The length of the list, then two identities of 9 bytes.
        for cut in 0..bytes.len() {
            let found = identities(&bytes[..cut]).count();
            assert_eq!(found, if cut < 2 + 18 { 0 } else { 2 }, "cut at {cut}");
        }
        assert_eq!(identities(&[0, 4, 0, 9, 1, 2]).count(), 0);
        assert_eq!(identities(&[0, 5, 0, 1, 7, 0, 0]).count(), 0, "no age");
    }
}
