//! The functions of libssl and libcrypto: those of the machine, loaded when they are first asked
//! for, or with the feature `vendored-openssl` those that are part of the program.

use super::files::Files;
use super::types::{
    Bio, BioCtrl, BioMethod, BioRead, BioWrite, ClientHelloCallback, FindSessionCallback,
    INIT_NO_ATEXIT, KeylogCallback, Ssl, SslCipher, SslCtx, SslMethod, SslSession,
    UseSessionCallback,
};
use core::ffi::{c_char, c_int, c_long, c_uchar, c_uint, c_ulong, c_void};
use std::sync::OnceLock;
#[cfg(not(feature = "vendored-openssl"))]
use weft_base::lock::Lock;

/// What to install, on this system.
#[cfg(windows)]
const INSTALL: &str =
    "OpenSSL 3 for Windows, or put its libssl-3 and libcrypto-3 DLLs next to weft.exe";
#[cfg(target_vendor = "apple")]
const INSTALL: &str = "openssl@3 (Homebrew)";
#[cfg(not(any(windows, target_vendor = "apple")))]
const INSTALL: &str = "libssl3 (Debian 12, Ubuntu 22.04, Alpine), libssl3t64 (later Debian and Ubuntu) or openssl-libs (Fedora, RHEL)";

/// Why there is no TLS here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The libraries are missing.
    #[error("TLS needs OpenSSL 3: install {INSTALL} ({0})")]
    NoLibrary(String),
    /// The libraries do not do what is needed.
    #[error("TLS cannot be set up with this OpenSSL: it refuses {0}")]
    Refused(&'static str),
}

macro_rules! library {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?, of $of:ident;)*) => {
        /// The functions of both libraries, which stay loaded as long as the process lives.
        #[allow(non_snake_case, reason = "the names are those of the library")]
        pub(crate) struct Library {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        #[cfg(not(feature = "vendored-openssl"))]
        impl Library {
            fn of(files: &Files) -> Result<Self, Unavailable> {
                $(
                    // SAFETY: the function has this type in the headers of OpenSSL 3, and a library
                    // of that version, which its file name states, keeps it.
                    #[allow(non_snake_case, reason = "the names are those of the library")]
                    let $name = unsafe {
                        files.$of.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>(concat!(stringify!($name), "\0").as_bytes())
                    };
                    #[allow(non_snake_case, reason = "the names are those of the library")]
                    let $name = *$name.map_err(|e| Unavailable::NoLibrary(e.to_string()))?;
                )*
                Ok(Self { $($name,)* })
            }
        }

        #[cfg(feature = "vendored-openssl")]
        mod linked {
            use super::*;

            // SAFETY: these are the functions of the headers of the OpenSSL that is built with this
            // crate.
            unsafe extern "C" {
                $(pub(super) fn $name($(_: $argument),*) $(-> $result)?;)*
            }
        }

        #[cfg(feature = "vendored-openssl")]
        impl Library {
            fn linked() -> Self {
                Self { $($name: linked::$name,)* }
            }
        }
    };
}

library! {
    OPENSSL_init_ssl: fn(u64, *const c_void) -> c_int, of ssl;
    TLS_method: fn() -> *const SslMethod, of ssl;
    SSL_CTX_new: fn(*const SslMethod) -> *mut SslCtx, of ssl;
    SSL_CTX_free: fn(*mut SslCtx), of ssl;
    SSL_CTX_ctrl: fn(*mut SslCtx, c_int, c_long, *mut c_void) -> c_long, of ssl;
    SSL_CTX_set_options: fn(*mut SslCtx, u64) -> u64, of ssl;
    SSL_CTX_set_ciphersuites: fn(*mut SslCtx, *const c_char) -> c_int, of ssl;
    SSL_CTX_set_num_tickets: fn(*mut SslCtx, usize) -> c_int, of ssl;
    SSL_CTX_set_verify: fn(*mut SslCtx, c_int, *const c_void), of ssl;
    SSL_CTX_set_client_hello_cb: fn(*mut SslCtx, ClientHelloCallback, *mut c_void), of ssl;
    SSL_CTX_set_psk_find_session_callback: fn(*mut SslCtx, FindSessionCallback), of ssl;
    SSL_CTX_set_psk_use_session_callback: fn(*mut SslCtx, UseSessionCallback), of ssl;
    SSL_CTX_set_keylog_callback: fn(*mut SslCtx, KeylogCallback), of ssl;
    SSL_new: fn(*mut SslCtx) -> *mut Ssl, of ssl;
    SSL_free: fn(*mut Ssl), of ssl;
    SSL_set_bio: fn(*mut Ssl, *mut Bio, *mut Bio), of ssl;
    SSL_set_ex_data: fn(*mut Ssl, c_int, *mut c_void) -> c_int, of ssl;
    SSL_get_ex_data: fn(*const Ssl, c_int) -> *mut c_void, of ssl;
    SSL_set_accept_state: fn(*mut Ssl), of ssl;
    SSL_set_connect_state: fn(*mut Ssl), of ssl;
    SSL_set_ciphersuites: fn(*mut Ssl, *const c_char) -> c_int, of ssl;
    SSL_client_hello_get0_ext: fn(*mut Ssl, c_uint, *mut *const c_uchar, *mut usize) -> c_int, of ssl;
    SSL_do_handshake: fn(*mut Ssl) -> c_int, of ssl;
    SSL_session_reused: fn(*const Ssl) -> c_int, of ssl;
    SSL_version: fn(*const Ssl) -> c_int, of ssl;
    SSL_get_error: fn(*const Ssl, c_int) -> c_int, of ssl;
    SSL_CIPHER_find: fn(*mut Ssl, *const c_uchar) -> *const SslCipher, of ssl;
    SSL_SESSION_new: fn() -> *mut SslSession, of ssl;
    SSL_SESSION_free: fn(*mut SslSession), of ssl;
    SSL_SESSION_set1_master_key: fn(*mut SslSession, *const c_uchar, usize) -> c_int, of ssl;
    SSL_SESSION_set_cipher: fn(*mut SslSession, *const SslCipher) -> c_int, of ssl;
    SSL_SESSION_set_protocol_version: fn(*mut SslSession, c_int) -> c_int, of ssl;
    BIO_get_new_index: fn() -> c_int, of crypto;
    BIO_meth_new: fn(c_int, *const c_char) -> *mut BioMethod, of crypto;
    BIO_meth_set_read: fn(*mut BioMethod, BioRead) -> c_int, of crypto;
    BIO_meth_set_write: fn(*mut BioMethod, BioWrite) -> c_int, of crypto;
    BIO_meth_set_ctrl: fn(*mut BioMethod, BioCtrl) -> c_int, of crypto;
    BIO_new: fn(*const BioMethod) -> *mut Bio, of crypto;
    BIO_set_init: fn(*mut Bio, c_int), of crypto;
    BIO_set_data: fn(*mut Bio, *mut c_void), of crypto;
    BIO_get_data: fn(*mut Bio) -> *mut c_void, of crypto;
    BIO_set_flags: fn(*mut Bio, c_int), of crypto;
    BIO_clear_flags: fn(*mut Bio, c_int), of crypto;
    ERR_get_error: fn() -> c_ulong, of crypto;
    ERR_clear_error: fn(), of crypto;
    ERR_reason_error_string: fn(c_ulong) -> *const c_char, of crypto;
}

/// The functions, once they are loaded.
static LIBRARY: OnceLock<Library> = OnceLock::new();

/// The libraries, which are loaded by the first call. If that fails the next one tries again: they
/// may have been installed meanwhile.
pub(crate) fn library() -> Result<&'static Library, Unavailable> {
    static LOADING: Lock<()> = Lock::new(());
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    // One at a time: what is loaded twice would be set up twice.
    let _one = LOADING.lock();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let found = find()?;
    // SAFETY: the function has no requirements.
    if unsafe { (found.OPENSSL_init_ssl)(INIT_NO_ATEXIT, core::ptr::null()) } != 1 {
        return Err(Unavailable::Refused("to start"));
    }
    Ok(LIBRARY.get_or_init(|| found))
}

#[cfg(feature = "vendored-openssl")]
#[allow(clippy::unnecessary_wraps, reason = "those of the machine may be missing")]
fn find() -> Result<Library, Unavailable> {
    Ok(Library::linked())
}

#[cfg(not(feature = "vendored-openssl"))]
fn find() -> Result<Library, Unavailable> {
    let files = Files::load().map_err(Unavailable::NoLibrary)?;
    let found = Library::of(&files)?;
    files.keep();
    Ok(found)
}

/// The functions, for callbacks: whoever is called back has loaded them.
pub(super) fn loaded() -> Option<&'static Library> {
    LIBRARY.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Most machines have OpenSSL. Either is an answer, and the same one the next time.
    #[test]
    fn a_machine_without_the_libraries_is_told_what_to_install() {
        for _ in 0..2 {
            match library().map_err(|why| why.to_string()).err() {
                Some(why) if cfg!(feature = "vendored-openssl") => {
                    panic!("what is part of the program is missing: {why}")
                }
                Some(why) => assert!(why.contains(INSTALL), "{why}"),
                None => {}
            }
        }
    }
}
