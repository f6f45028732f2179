//! Types and constants of OpenSSL's headers (`ssl.h`, `bio.h`, `crypto.h`), as version 3 has them.
//! All types are opaque: none is read or written but by the library.

use core::ffi::{c_char, c_int, c_long, c_uchar, c_void};

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])* #[repr(C)] pub(super) struct $name { _private: [u8; 0] })*
    };
}

opaque! {
    /// `SSL_METHOD`.
    SslMethod;
    /// `SSL_CTX`.
    SslCtx;
    /// `SSL`.
    Ssl;
    /// `SSL_SESSION`.
    SslSession;
    /// `SSL_CIPHER`.
    SslCipher;
    /// `EVP_MD`.
    EvpMd;
    /// `BIO`.
    Bio;
    /// `BIO_METHOD`.
    BioMethod;
}

/// `SSL_client_hello_cb_fn`.
pub(super) type ClientHelloCallback =
    unsafe extern "C" fn(*mut Ssl, *mut c_int, *mut c_void) -> c_int;
/// `SSL_CTX_keylog_cb_func`.
pub(super) type KeylogCallback = unsafe extern "C" fn(*const Ssl, *const c_char);
/// `SSL_psk_find_session_cb_func`.
pub(super) type FindSessionCallback =
    unsafe extern "C" fn(*mut Ssl, *const c_uchar, usize, *mut *mut SslSession) -> c_int;
/// `SSL_psk_use_session_cb_func`.
pub(super) type UseSessionCallback = unsafe extern "C" fn(
    *mut Ssl,
    *const EvpMd,
    *mut *const c_uchar,
    *mut usize,
    *mut *mut SslSession,
) -> c_int;
/// What reads for a BIO.
pub(super) type BioRead = unsafe extern "C" fn(*mut Bio, *mut c_char, c_int) -> c_int;
/// What writes for a BIO.
pub(super) type BioWrite = unsafe extern "C" fn(*mut Bio, *const c_char, c_int) -> c_int;
/// What a BIO answers to everything else.
pub(super) type BioCtrl = unsafe extern "C" fn(*mut Bio, c_int, c_long, *mut c_void) -> c_long;

/// `OPENSSL_INIT_NO_ATEXIT`: other threads may still use the library when the process ends.
pub(super) const INIT_NO_ATEXIT: u64 = 0x0008_0000;

pub(super) const TLS1_3_VERSION: c_int = 0x0304;
pub(super) const CTRL_SET_SESS_CACHE_MODE: c_int = 44;
pub(super) const CTRL_SET_GROUPS_LIST: c_int = 92;
pub(super) const CTRL_SET_MIN_PROTO_VERSION: c_int = 123;
pub(super) const CTRL_SET_MAX_PROTO_VERSION: c_int = 124;

/// `SSL_OP_NO_TICKET`.
pub(super) const OP_NO_TICKET: u64 = 1 << 14;
/// `SSL_OP_NO_RENEGOTIATION`.
pub(super) const OP_NO_RENEGOTIATION: u64 = 1 << 30;

pub(super) const VERIFY_PEER: c_int = 1;

pub(super) const ERROR_WANT_READ: c_int = 2;
pub(super) const ERROR_WANT_WRITE: c_int = 3;
pub(super) const ERROR_ZERO_RETURN: c_int = 6;

pub(super) const CLIENT_HELLO_SUCCESS: c_int = 1;
pub(super) const CLIENT_HELLO_ERROR: c_int = 0;

/// The extension `pre_shared_key`.
pub(super) const EXTENSION_PSK: core::ffi::c_uint = 41;
/// The alert `unknown_psk_identity`.
pub(super) const ALERT_UNKNOWN_PSK_IDENTITY: c_int = 115;

/// `BIO_TYPE_SOURCE_SINK`.
pub(super) const BIO_SOURCE_SINK: c_int = 0x0400;
pub(super) const BIO_CTRL_FLUSH: c_int = 11;
/// `BIO_FLAGS_READ`, `BIO_FLAGS_SHOULD_RETRY`.
pub(super) const BIO_RETRY_READ: c_int = 0x01 | 0x08;
/// `BIO_FLAGS_RWS`, `BIO_FLAGS_SHOULD_RETRY`.
pub(super) const BIO_RETRY_ANY: c_int = 0x07 | 0x08;

/// `ERR_REASON_MASK`.
pub(super) const REASON_MASK: u64 = 0x007f_ffff;
