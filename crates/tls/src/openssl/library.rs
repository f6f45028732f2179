//! The libraries libssl and libcrypto of OpenSSL 3, loaded when they are first asked for.

use super::types::{
    Bio, BioCtrl, BioMethod, BioRead, BioWrite, ClientHelloCallback, FindSessionCallback, INIT_NO_ATEXIT, Ssl, SslCipher, SslCtx,
    SslMethod, SslSession, UseSessionCallback,
};
use core::ffi::{c_char, c_int, c_long, c_uchar, c_uint, c_ulong, c_void};
use libloading::Library as File;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Why there is no TLS here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The libraries are missing.
    #[error(
        "TLS needs OpenSSL 3: install libssl3 (Debian 12, Ubuntu 22.04), libssl3t64 (later ones), openssl-libs (Fedora, RHEL), openssl@3 (Homebrew) or \
         OpenSSL 3 for Windows ({0})"
    )]
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

        impl Library {
            fn of(files: &Files) -> Result<Self, Unavailable> {
                $(
                    // SAFETY: the function has this type in the headers of OpenSSL 3, and a library of that version, which its file name
                    // states, keeps it.
                    #[allow(non_snake_case, reason = "the names are those of the library")]
                    let $name = unsafe {
                        files.$of.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>(concat!(stringify!($name), "\0").as_bytes())
                    };
                    #[allow(non_snake_case, reason = "the names are those of the library")]
                    let $name = *$name.map_err(|e| missing(&e))?;
                )*
                let library = Self { $($name,)* };
                // SAFETY: the function has no requirements.
                if unsafe { (library.OPENSSL_init_ssl)(INIT_NO_ATEXIT, core::ptr::null()) } != 1 {
                    return Err(Unavailable::Refused("to start"));
                }
                Ok(library)
            }
        }
    };
}

struct Files {
    ssl: File,
    crypto: File,
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
    SSL_read_ex: fn(*mut Ssl, *mut c_void, usize, *mut usize) -> c_int, of ssl;
    SSL_write_ex: fn(*mut Ssl, *const c_void, usize, *mut usize) -> c_int, of ssl;
    SSL_pending: fn(*const Ssl) -> c_int, of ssl;
    SSL_key_update: fn(*mut Ssl, c_int) -> c_int, of ssl;
    SSL_shutdown: fn(*mut Ssl) -> c_int, of ssl;
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

/// The libraries, which are loaded by the first call. If that fails the next one tries again: they may have been installed meanwhile.
pub(crate) fn library() -> Result<&'static Library, Unavailable> {
    static LOADING: Mutex<()> = Mutex::new(());
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    // One at a time: what is loaded twice would be set up twice.
    let _one = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let files = load()?;
    let loaded = Library::of(&files)?;
    // They are never closed: the functions stay where they are.
    core::mem::forget(files);
    Ok(LIBRARY.get_or_init(|| loaded))
}

/// The functions, for callbacks: whoever is called back has loaded them.
pub(super) fn loaded() -> Option<&'static Library> {
    LIBRARY.get()
}

/// Names under which systems have both libraries: libcrypto, which the other one needs, and libssl.
#[cfg(all(unix, not(target_vendor = "apple")))]
const NAMES: &[(&str, &str)] = &[("libcrypto.so.3", "libssl.so.3")];
#[cfg(target_vendor = "apple")]
const NAMES: &[(&str, &str)] = &[
    ("libcrypto.3.dylib", "libssl.3.dylib"),
    ("/opt/homebrew/opt/openssl@3/lib/libcrypto.3.dylib", "/opt/homebrew/opt/openssl@3/lib/libssl.3.dylib"),
    ("/usr/local/opt/openssl@3/lib/libcrypto.3.dylib", "/usr/local/opt/openssl@3/lib/libssl.3.dylib"),
];
#[cfg(all(windows, target_arch = "x86_64"))]
const NAMES: &[(&str, &str)] = &[("libcrypto-3-x64.dll", "libssl-3-x64.dll")];
#[cfg(all(windows, target_arch = "aarch64"))]
const NAMES: &[(&str, &str)] = &[("libcrypto-3-arm64.dll", "libssl-3-arm64.dll")];
#[cfg(not(any(unix, all(windows, any(target_arch = "x86_64", target_arch = "aarch64")))))]
const NAMES: &[(&str, &str)] = &[("libcrypto-3.dll", "libssl-3.dll")];

fn load() -> Result<Files, Unavailable> {
    let mut why = String::new();
    for (crypto, ssl) in NAMES {
        // SAFETY: the initialisers of these libraries have no requirements.
        let files = unsafe { File::new(crypto).and_then(|crypto| Ok(Files { ssl: File::new(ssl)?, crypto })) };
        match files {
            Ok(files) => return Ok(files),
            Err(e) if why.is_empty() => why = e.to_string(),
            Err(_) => {}
        }
    }
    Err(Unavailable::NoLibrary(why))
}

fn missing(e: &libloading::Error) -> Unavailable {
    Unavailable::NoLibrary(e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Most machines have OpenSSL. Either is an answer, and the same one the next time.
    #[test]
    fn a_machine_without_the_libraries_is_told_what_to_install() {
        for _ in 0..2 {
            if let Err(why) = library() {
                assert!(why.to_string().contains("libssl3"), "{why}");
            }
        }
    }
}
