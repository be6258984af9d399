//! Serves a RAM device over NBD until standard input ends: for benchmarks and for trying clients.
//!
//!     cargo run --release -p stria-front --example ram_server -- unix:/tmp/ram.sock 1024
//!
//! Arguments: the address to listen on (`unix:PATH` or `tcp:ADDRESS:PORT`), the size in MiB, and, if the lane should not decide,
//! where clients run: `on-lane` on the device's lane, `apart` on threads of their own. `tls=FOLDER` as the last one requires TLS,
//! with `server-cert.pem`, `server-key.pem` and `ca-cert.pem` of that folder.

use std::error::Error;
use std::io::Read;
use std::path::Path;
use stria_block::{Limits, RamDevice};
use stria_drive::{DriveError, Lane};
use stria_front::{Export, Listener, Options, Server, TlsConfig};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let tls = arguments.pop_if(|last| last.starts_with("tls=")).map(|last| {
        let file = |name| Path::new(&last["tls=".len()..]).join(name);
        TlsConfig::load(&file("server-cert.pem"), &file("server-key.pem"), Some(&file("ca-cert.pem")), true)
    });
    let (address, size_mib, lane) = match arguments.as_slice() {
        [address, size] => (address, size, Lane::new("ram")),
        [address, size, clients] if clients == "on-lane" => (address, size, Lane::new("ram").takes_clients(true)),
        [address, size, clients] if clients == "apart" => (address, size, Lane::new("ram").takes_clients(false)),
        _ => return Err("usage: ram_server unix:PATH|tcp:ADDRESS:PORT MIB [on-lane|apart] [tls=FOLDER]".into()),
    };
    let listener = match address.split_once(':') {
        Some(("unix", path)) => Listener::Unix(path.into()),
        Some(("tcp", address)) => Listener::Tcp(address.parse()?),
        _ => return Err(format!("\"{address}\" is not an address; write unix:PATH or tcp:ADDRESS:PORT").into()),
    };
    let size_sectors = size_mib.parse::<u64>()? * 2048;
    let limits = Limits { discard_granularity_bytes: 512, unmap_zeroes: true, ..Limits::plain(size_sectors) };
    let lane = lane.spawn(move |_| Ok::<_, DriveError>(RamDevice::with_limits(limits)))?;
    let export = Export { name: String::new(), description: "RAM".into(), device: lane.remote(), read_only: false };
    let server = Server::start(vec![listener], vec![export], Options { tls: tls.transpose()?, ..Options::default() })?;
    println!("{}", server.uris("").join("\n"));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    server.stop();
    Ok(())
}
