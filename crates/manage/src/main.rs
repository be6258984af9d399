//! The `stria` program; all of it is in the library, so that tests and tools can reach it.

fn main() -> std::process::ExitCode {
    stria_manage::main()
}
