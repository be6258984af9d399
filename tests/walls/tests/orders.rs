//! Goal: modules of each crate stand in one order, from the ground up, and none uses one above it. Where a new arrow runs uphill,
//! move what is used down, into a module of its own, before you change an order. The engine's order is in
//! `crates/array/tests/modules.rs`.

use stria_walls::Order;

#[track_caller]
fn holds(crate_folder: &str, modules: &str) {
    let faults = Order::new(crate_folder, modules).faults();
    assert!(faults.is_empty(), "{crate_folder}: {faults:?}");
}

/// What crosses the socket; settings; files and folders; what is remembered and shown; serving; the watch over it; the command
/// line's grammar and the configuration; the daemon's parts and its API; commands.
#[test]
fn of_the_program() {
    holds(
        "crates/manage",
        "
        settings words::plan_values words::order words::result words::warning_values words::error words::create words::unserved words::io words::sweep
        words::plan words::drop words::join words::refusal words::denial words::drive words::health words::host words::alarm words::warning words::start
        words::firmware words::event
        api system::clock log system::threads events::log system::mounts system::udev toml_line system::atomic_file
        control::sockets lane_spec system::directory service::free ledger fronts::ublk
        view events::since tools
        control::client drive_name progress words::request matter status::plain status fronts::nbd fronts::vhost_user
        service::caches service::space service::served service service::commands service::stop service::settings service::firmware service::watchdog
        signals control::listen control events::file monitor
        wipe cli::common cli::daemon cli::health cli::life cli::token cli config ownership::mdadm meant fronts::attach ownership ownership::foreign
        routine serve keeper pool
        rest::types rest::drives rest::looks rest::summary rest::page rest::reports rest::users rest::auth rest::accounts
        rest::machine rest::measure rest::takes rest::plans rest::jobs rest::forecast rest::schedules rest::channels
        rest::parts rest::reading rest::route rest::stream rest::routes rest::tcp rest::server rest
        daemon
        commands::adopt commands::life commands::explain commands::firmware commands::health commands::import commands::manual commands::orders
        commands::set commands::spare commands::token commands::ublk commands::wizard commands
        ",
    );
}

#[test]
fn of_drives() {
    holds(
        "crates/drive",
        "
        access clock error extents sysfs within info lock multipath other_paths passthrough program reports size size_limit sync_drive
        blocking parts registered job ring workers file_drive lane numa
        ",
    );
}

/// What each client and device needs; devices of this machine's kernel; the connection; the places; serving.
#[test]
fn of_the_front() {
    holds(
        "crates/front",
        "
        apart budget device_note device_users listener socket_file socket_owner talk tls_files tls wire error export
        nbd_device uri door handshake session
        ublk::uapi ublk::error ublk::queue ublk::options ublk::lane_client ublk::kernel ublk::stand_in ublk::driver ublk
        connection link options registry client server vhost_user fuzz
        ",
    );
}

/// Structures; how members are found; what is made, kept true and shown.
#[test]
fn of_the_formats() {
    holds(
        "crates/format",
        "
        fields read
        md::badblocks md::unserved md::bitmap md::span md::superblock md::shape md::checksums md::log md::ppl md::servable md::counts detect
        md::member md::lane_log md::create md::recorder md::assemble md::examine md::raw firmware
        ",
    );
}

#[test]
fn of_the_tree_on_real_drives() {
    holds(
        "crates/host",
        "
        denial error beneath block_devices candidate answers hosted_drive checked words firmware examine clock merger newcomer sync_io hosted
        lacking marks warning open choose create report lanes rework
        ",
    );
    holds("crates/tree", "create tree join_error join lanes plan nest");
}

#[test]
fn of_small_crates() {
    holds(
        "crates/block",
        "arena buffer ranges limits trouble error request device fault lane_client mailbox ram sectors shown timings process_limits",
    );
    holds("crates/alarm", "config event journal channel heartbeat messenger acknowledged tracker");
    holds("crates/health", "words admin judge mark nvme smartctl book read cache peers seat firmware erase");
    holds("crates/integrity", "region table device");
    holds("crates/parity", "field reference addresses kernel code locate recover store selftest chosen xor");
    holds("crates/routine", "calendar hours plan");
    holds("crates/terminal", "describe failure output program progress size memory_limit size_limit");
}

#[test]
fn of_tools() {
    holds(
        "tools/lab",
        "
        units lines md purge shipped stats result own remote times trace array endurance experiment state
        steady select purpose stage fio nbd_uri target_lock others theory compare export import modelled raid_runs snia target
        report::table report::words report::chart report::drawing report::context report::modes report::timeline report::groups
        report::tables report::curves report::together report plan replay run replay_run verify
        ",
    );
    holds(
        "tools/bench",
        "
        ledger outcome load theory scratch compare environment null paced scaling story
        report::html report::chart report::comparison report::scaling report::story report sweep
        ",
    );
    holds(
        "tools/plan",
        "
        amount bounds applications model queueing station ssd hdd load calibration level platform backplane modelled array calc campaign profile reliability
        rig reproduce subject advice
        ",
    );
    // Drives and what makes them wrong; arrays on them; what a seed draws; checkers; histories, and runs of many.
    holds(
        "tools/sim",
        "
        image mutant trace power drive swap member_drive ssd modelled beside
        lanes setup partial_parity tree beyond crossed
        workload hostile_client model reference back
        world::tally world::notes world::draws world::clients world::space world::waits world::next_crash world::redundancy world::examination
        world::begun
        world world::atlas world::requests world::starts world::leaving world::full world::hanging world::faults
        world::changes world::commands world::members world::meeting world::crashes world::end
        campaign exhaustive price shrink
        ",
    );
}

#[test]
fn arrows_uphill_are_found_through_crate_super_and_exports() {
    let order = "
        fields read
        md::badblocks md::unserved md::bitmap md::span md::superblock md::servable md::shape md::ppl md::log md::checksums md::counts md::member
        detect md::lane_log md::create md::recorder md::assemble md::raw firmware md::gone
    ";
    let faults = Order::new("crates/format", order).faults();
    let expected = [
        "md::examine has no place",
        "md::gone is gone",
        "md::log uses md::checksums",
        "md::member uses detect",
        "md::ppl uses md::checksums",
        "md::ppl uses md::log",
        "md::servable uses md::ppl",
        "md::servable uses md::shape",
    ];
    assert_eq!(faults, expected);
}
