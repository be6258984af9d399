//! Links the C peers that `run` has built into $STRIA_PEERS; missing ones are left out.

fn main() {
    println!("cargo:rerun-if-env-changed=STRIA_PEERS");
    let Ok(folder) = std::env::var("STRIA_PEERS") else { return };
    println!("cargo:rustc-link-search=native={folder}");
    for peer in ["linux", "snapraid"] {
        let library = format!("{folder}/libpeer_{peer}.a");
        println!("cargo:rerun-if-changed={library}");
        if std::path::Path::new(&library).exists() {
            println!("cargo:rustc-link-lib=static=peer_{peer}");
            println!("cargo:rustc-cfg=peer_{peer}");
        }
    }
}
