module example.com/admission-load

go 1.26.0
