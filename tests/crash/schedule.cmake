# Deterministic schedules: docs/crash_model.md, "Several threads".
lodgekv_library(lodgekv_schedule_lab
  SRCS schedule/concurrent_history.cc schedule/program.cc schedule/schedule_explorer.cc
       schedule/scheduled_run.cc schedule/schedule_plan.cc schedule/scheduled_calls.cc
       schedule/scheduled_tracer.cc schedule/scheduler.cc schedule/strategies.cc
  DEPS lodgekv_crash_lab lodgekv_art lodgekv_node PkgConfig::XXHASH absl::str_format absl::strings)
foreach(call pthread_mutex_lock pthread_rwlock_rdlock pthread_rwlock_wrlock sched_yield
        nanosleep pthread_cond_wait pthread_cond_timedwait pthread_cond_clockwait
        pthread_cond_signal pthread_cond_broadcast
        _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE
        _ZNSt18condition_variable10notify_oneEv _ZNSt18condition_variable10notify_allEv
        _ZNSt6chrono3_V212steady_clock3nowEv _ZNSt6chrono3_V212system_clock3nowEv
        _ZN7lodgekv10EpochGuardC1Ev _ZN7lodgekv10EpochGuardD1Ev _ZN7lodgekv13WaitForEpochsEv
        _ZN7lodgekv12CompareWordsE _ZN7lodgekv8NotAboveE _ZN7lodgekv11kSearchFormE
        _ZN7lodgekv3art12CompareBytesE
        _ZN7lodgekv13RecordIsSoundERKNS_4pmem4PoolEmRKNS_10RecordViewE)
  target_link_options(lodgekv_schedule_lab INTERFACE "LINKER:--wrap=${call}")
endforeach()

lodgekv_test(crash_scheduler_test
  SRCS schedule/art_schedule_test.cc schedule/concurrent_history_test.cc schedule/guest_test.cc
       schedule/scheduler_test.cc
  DEPS lodgekv_schedule_lab LABELS crash)
lodgekv_test(crash_schedule_test
  SRCS schedule/schedule_test.cc DEPS lodgekv_schedule_lab LABELS crash TIMEOUT 3600 PER_ENGINE)
lodgekv_test(crash_schedule_canary_test
  SRCS schedule/schedule_canary_test.cc DEPS lodgekv_schedule_lab LABELS crash TIMEOUT 3600)
target_compile_definitions(crash_schedule_canary_test PRIVATE
  LODGEKV_INDEX_DIR="${PROJECT_SOURCE_DIR}/index")
# 10^7 schedules.
if(TARGET crash_schedule_test)
  add_test(NAME crash_schedule_long COMMAND crash_schedule_test)
  set_tests_properties(crash_schedule_long PROPERTIES
    ENVIRONMENT LODGEKV_TEST_SCALE=130 LABELS torture TIMEOUT 36000)
  add_dependencies(tests_torture crash_schedule_test)
endif()
