program a
  implicit none
  integer :: i
  real(8) :: x(1000), s
  call random_seed()
  do i = 1, 1000
    x(i) = sin(dble(i))
  end do
  s = total(x, 1000)
  print '(F12.6)', s
  write(*,*) trim('done')
contains
  recursive function total(v, n) result(r)
    integer, intent(in) :: n
    real(8), intent(in) :: v(n)
    real(8) :: r
    if (n == 1) then
      r = v(1)
    else
      r = v(n) + total(v, n - 1)
    end if
  end function
end program
