//! Serves a RAM device over NBD until standard input ends: for benchmarks and for trying clients.
//!
//!     cargo run --release -p stria-front --example ram_server -- unix:/tmp/ram.sock 1024
//!
//! Arguments: where to listen (`unix:PATH` or `tcp:ADDRESS:PORT`), and the size in MiB.

#[path = "../tests/support/device.rs"]
mod device;

use std::error::Error;
use std::io::Read;
use std::sync::Arc;
use stria_block::{Limits, RamDevice};
use stria_front::{Export, Listener, Options, Server};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, size_mib] = arguments.as_slice() else { return Err("usage: ram_server unix:PATH|tcp:ADDRESS:PORT MIB".into()) };
    let listener = match address.split_once(':') {
        Some(("unix", path)) => Listener::Unix(path.into()),
        Some(("tcp", address)) => Listener::Tcp(address.parse()?),
        _ => return Err(format!("\"{address}\" is no address; write unix:PATH or tcp:ADDRESS:PORT").into()),
    };
    let size_sectors = size_mib.parse::<u64>()? * 2048;
    let limits = Limits { discard_granularity_bytes: 512, unmap_zeroes: true, ..Limits::plain(size_sectors) };
    let device = device::DeviceThread::spawn(limits, move || RamDevice::new(size_sectors));
    let export = Export { name: String::new(), description: "RAM".into(), device: Arc::new(device), read_only: false };
    let server = Server::start(vec![listener], vec![export], Options::default())?;
    println!("{}", server.uris("").join("\n"));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    server.stop();
    Ok(())
}
