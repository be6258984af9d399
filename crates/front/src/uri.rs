//! NBD URIs, as clients take them. Source: `doc/uri.md` of the NBD project.

use crate::Listener;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::os::unix::ffi::OsStrExt;

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
}
