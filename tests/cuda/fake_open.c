/* In place of opening libcuda.so.1: the driver that is not there, with a small card. Linked before the backend's library. */
#include "cuda/fake_driver.h"

bool cuda_driver_open(struct cuda_driver *driver, ey_err *e)
{
    (void)e;
    fake_driver_fill(driver, &fake_small_card);
    return true;
}

void cuda_driver_close(struct cuda_driver *driver)
{
    *driver = (struct cuda_driver){0};
}
