//! NBD URIs, as clients take them. Source: `doc/uri.md` of the NBD project.

use crate::Listener;
use crate::nbd_device::NbdTarget;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Characters that are escaped: all but the unreserved ones of RFC 3986 and the slash.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// How a client reaches `export` at `listener`: `nbd+unix:///EXPORT?socket=PATH` or `nbd://HOST:PORT/EXPORT`, and where TCP
/// requires TLS `nbds://`.
pub fn nbd_uri(listener: &Listener, export: &str, requires_tls: bool) -> String {
    let export = utf8_percent_encode(export, ESCAPED);
    match listener {
        Listener::Unix(path) => {
            let path = percent_encoding::percent_encode(path.as_os_str().as_bytes(), ESCAPED);
            format!("nbd+unix:///{export}?socket={path}")
        }
        Listener::Tcp(address) => format!("{}://{address}/{export}", if requires_tls { "nbds" } else { "nbd" }),
    }
}

/// The server that a URI of [`nbd_uri`] names. `None`: it requires TLS, or is none of those.
pub fn nbd_target(uri: &str) -> Option<NbdTarget> {
    let (scheme, rest) = uri.split_once("://")?;
    let (address, export) = rest.split_once('/')?;
    let (address, export) = match scheme {
        "nbd+unix" => {
            let (export, socket) = export.split_once("?socket=")?;
            let path = OsString::from_vec(percent_decode_str(socket).collect());
            (Listener::Unix(path.into()), export)
        }
        "nbd" => (Listener::Tcp(address.parse().ok()?), export),
        _ => return None,
    };
    Some(NbdTarget { address, export: percent_decode_str(export).decode_utf8().ok()?.into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_escape_what_would_be_misread() {
        let unix = Listener::Unix("/run/my disks/a.sock".into());
        assert_eq!(nbd_uri(&unix, "tank?1", true), "nbd+unix:///tank%3F1?socket=/run/my%20disks/a.sock");
        let tcp = Listener::Tcp("[::1]:10809".parse().expect("an address"));
        assert_eq!(nbd_uri(&tcp, "", false), "nbd://[::1]:10809/");
        assert_eq!(nbd_uri(&tcp, "", true), "nbds://[::1]:10809/");
    }

    #[test]
    fn uris_lead_back_to_what_they_were_made_of() {
        let unix = Listener::Unix("/run/my disks/ä?b.sock".into());
        let tcp = Listener::Tcp("[::1]:10809".parse().expect("an address"));
        for (address, export) in [(unix, "tank?1"), (tcp.clone(), "a/b ü"), (tcp.clone(), "")] {
            let found = nbd_target(&nbd_uri(&address, export, false));
            assert_eq!(found, Some(NbdTarget { address, export: export.into() }));
        }
        for other in [nbd_uri(&tcp, "tank", true), "tank".into(), "nbd://tank".into(), "nbd://nowhere/tank".into()] {
            assert_eq!(nbd_target(&other), None, "{other}");
        }
    }
}
