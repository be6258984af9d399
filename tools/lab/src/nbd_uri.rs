//! NBD URIs of servers without TLS.

/// The server of a URI.
#[derive(Debug, PartialEq)]
pub(crate) enum Address {
    Unix(String),
    Tcp(String),
}

/// The server of a URI without TLS.
pub(crate) fn address(uri: &str) -> Option<Address> {
    parse(uri).ok().map(|(address, _)| address)
}

/// True if a target is an export that is reached over a network.
pub(crate) fn is_over_network(target: &str) -> bool {
    target.contains("://") && !["nbd+unix://", "nbds+unix://"].iter().any(|local| target.starts_with(local))
}

/// The server and the export of a URI.
pub(crate) fn parse(uri: &str) -> Result<(Address, String), String> {
    let bad = || {
        format!(
            "\"{uri}\" is no NBD URI that can be replayed on: write nbd://HOST[:PORT]/[EXPORT] or nbd+unix:///[EXPORT]?socket=PATH"
        )
    };
    if let Some(rest) = uri.strip_prefix("nbd+unix://") {
        let (export, socket) = rest.split_once("?socket=").ok_or_else(bad)?;
        return Ok((Address::Unix(unescape(socket)), unescape(export.trim_start_matches('/'))));
    }
    let rest = uri.strip_prefix("nbd://").ok_or_else(bad)?;
    let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
    let is_bare = host.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err());
    Ok((Address::Tcp(if is_bare { format!("{host}:10809") } else { host.into() }), unescape(export)))
}

/// Without %XX.
fn unescape(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part.get(..2).and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.unwrap_or(b'%'));
        bytes.extend(&part.as_bytes()[if code.is_some() { 2 } else { 0 }..]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_tell_address_and_export() {
        let unix = |path: &str, export: &str| Ok((Address::Unix(path.into()), export.into()));
        assert_eq!(parse("nbd+unix:///?socket=/tmp/a.sock"), unix("/tmp/a.sock", ""));
        assert_eq!(parse("nbd+unix:///tank?socket=/tmp/a%20b"), unix("/tmp/a b", "tank"));
        assert_eq!(parse("nbd://host/x%2Fy"), Ok((Address::Tcp("host:10809".into()), "x/y".into())));
        assert_eq!(parse("nbd://host:7"), Ok((Address::Tcp("host:7".into()), String::new())));
        assert!(parse("nbds://host").unwrap_err().contains("nbd+unix:///"));
    }
}
